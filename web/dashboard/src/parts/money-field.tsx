import { exponentsOf } from '@bursar/contract'
import { useState } from 'react'
import { island } from '../app/island.ts'
import { Labelled } from '../kit/form.tsx'
import { money } from '../kit/format.ts'

const parts = new Intl.NumberFormat(island.locale).formatToParts(12_345.6)
const group = parts.find(({ type }) => type === 'group')?.value ?? ','
const decimal = parts.find(({ type }) => type === 'decimal')?.value ?? '.'

/** Reads an amount as the reader's language writes it, for example `1.234,50`. Undefined if it is no amount. */
const minorOf = (text: string, digits: number): number | undefined => {
  const plain = text
    .replaceAll(group, '')
    .replace(decimal, '.')
    .replaceAll(/[^\d.-]/g, '')
  const value = Number(plain)
  return plain === '' || Number.isNaN(value) ? undefined : Math.round(value * 10 ** digits)
}

/** A field for an amount in minor units. */
const MoneyField = ({
  label,
  currency,
  value,
  least = 1,
  most,
  hint,
  complaint,
  autoFocus = false,
  onChange,
}: {
  label: string
  currency: string
  value: number
  least?: number
  most?: number
  hint?: string
  complaint?: string | undefined
  autoFocus?: boolean
  onChange: (minor: number) => void
}) => {
  const [typed, setTyped] = useState<string | null>(null)
  return (
    <Labelled label={label} hint={hint} complaint={complaint}>
      {(control) => (
        <input
          {...control}
          type="text"
          inputMode="decimal"
          autoComplete="off"
          required
          autoFocus={autoFocus}
          value={typed ?? money(value, currency)}
          onChange={({ target }) => {
            setTyped(target.value)
            const minor = minorOf(target.value, exponentsOf(currency).wire)
            if (minor !== undefined) onChange(Math.min(most ?? Infinity, Math.max(least, minor)))
          }}
          onBlur={() => setTyped(null)}
        />
      )}
    </Labelled>
  )
}
export default MoneyField
