import { listProducts } from '@bursar/contract'
import { useState, type FormEvent } from 'react'
import { useRead } from '../../app/api.ts'
import { useSetSearch, type Search } from '../../app/search.ts'
import { may } from '../../app/island.ts'
import { t } from '../../app/texts.ts'
import { Popover } from '../../kit/bits.tsx'
import metricsLimits from 'contract-data:metricsLimits'
import { intervalsOf, isZone, presetNames } from './ranges.ts'
import { daysText, momentIn, type Answer, type Asked } from './view.ts'

/** Other values lead to other intervals, so the chosen interval and its page of records are forgotten. */
const nothingChosen = { bucket: undefined, page: undefined }

const Choice = ({
  label,
  value,
  options,
  onChange,
}: {
  label: string
  value: string
  options: readonly (readonly [string, string])[]
  onChange: (value: string) => void
}) => (
  <label className="pick-one">
    <span className="hidden">{label}</span>
    <select value={value} onChange={({ target }) => onChange(target.value)}>
      {options.map(([key, text]) => (
        <option key={key} value={key}>
          {text}
        </option>
      ))}
    </select>
  </label>
)

/** The range, its interval and time zone, and the filters. The address holds all of them. */
export const Controls = ({ asked, read }: { asked: Asked; read: Answer | undefined }) => {
  const setSearch = useSetSearch()
  const { range, compares, previous, filters } = asked
  const change = (parts: Search) => setSearch({ ...nothingChosen, ...parts })
  const products = useRead(listProducts, { query: { limit: 100 } }, { enabled: may('products:read') })
  const [product = ''] = filters.product_id
  const named = products.data?.items.map(({ id, name }) => [id, name] as const) ?? []
  // The address may name a product that is not among the first hundred.
  if (product !== '' && !named.some(([id]) => id === product)) named.push([product, product])
  return (
    <div className="filters">
      <div className="filter-row" role="search">
        <Choice
          label={t.metrics.range}
          value={range.preset ?? 'custom'}
          options={[
            ...presetNames.map((name) => [name, t.metrics.presets[name]] as const),
            ...(range.preset === null ? [['custom', t.metrics.custom] as const] : []),
          ]}
          onChange={(value) => change({ range: value, from: undefined, to: undefined, interval: undefined })}
        />
        <Popover label={daysText(range)}>
          <Days key={`${range.start_date} ${range.end_date}`} asked={asked} onChange={change} />
        </Popover>
        <Choice
          label={t.metrics.interval}
          value={range.interval}
          options={intervalsOf(range).map((interval) => [interval, t.metrics.intervals[interval]])}
          onChange={(interval) => change({ interval })}
        />
        <Popover label={range.timezone}>
          <Zone key={range.timezone} zone={range.timezone} onChange={(zone) => change({ zone })} />
        </Popover>
        {products.data && named.length > 0 && (
          <Choice
            label={t.metrics.product}
            value={product}
            options={[['', t.metrics.anyProduct], ...named]}
            onChange={(id) => change({ product: id === '' ? undefined : id })}
          />
        )}
        <Choice
          label={t.metrics.type}
          value={filters.billing_type[0] ?? ''}
          options={[['', t.metrics.anyType], ...Object.entries(t.metrics.types)]}
          onChange={(type) => change({ type: type === '' ? undefined : type })}
        />
        {filters.customer_id.length > 0 && (
          <span className="soft">
            {t.metrics.customer}{' '}
            <button type="button" className="quiet" onClick={() => change({ customer: undefined })}>
              {t.metrics.everyCustomer}
            </button>
          </span>
        )}
        <label className="choice">
          <input type="checkbox" checked={compares} onChange={({ target }) => setSearch({ compare: target.checked ? undefined : 'off' })} />
          {t.metrics.compare}
        </label>
      </div>
      <p className="soft" role="status">
        {read && (
          <>
            {t.metrics.through(momentIn(read.data_through, range))}
            {' · '}
          </>
        )}
        {t.metrics.zone}: {range.timezone}
        {compares && ` · ${previous ? `${t.metrics.before}: ${daysText(previous)}` : t.metrics.noneBefore}`}
        {read !== undefined && read.amounts_left_out > 0 && ` · ${t.metrics.leftOut(read.amounts_left_out)}`}
      </p>
    </div>
  )
}

const Days = ({ asked: { range }, onChange }: { asked: Asked; onChange: (parts: Search) => void }) => {
  const [from, setFrom] = useState(range.start_date)
  const [to, setTo] = useState(range.end_date)
  return (
    <form
      className="days"
      onSubmit={(event: FormEvent) => {
        event.preventDefault()
        onChange({ from, to, range: undefined, interval: undefined })
      }}
    >
      <label>
        {t.metrics.from}
        <input type="date" required value={from} min={metricsLimits.min_date} max={to} onChange={({ target }) => setFrom(target.value)} />
      </label>
      <label>
        {t.metrics.to}
        <input type="date" required value={to} min={from} onChange={({ target }) => setTo(target.value)} />
      </label>
      <button>{t.metrics.show}</button>
    </form>
  )
}

const Zone = ({ zone, onChange }: { zone: string; onChange: (zone: string) => void }) => {
  const [name, setName] = useState(zone)
  const [wrong, setWrong] = useState(false)
  return (
    <form
      className="days"
      onSubmit={(event: FormEvent) => {
        event.preventDefault()
        const known = isZone(name.trim())
        setWrong(!known)
        if (known) onChange(name.trim())
      }}
    >
      <label>
        {t.metrics.zone}
        <input
          list="zones"
          required
          value={name}
          aria-describedby="zone-hint"
          aria-invalid={wrong || undefined}
          onChange={({ target }) => setName(target.value)}
        />
      </label>
      <datalist id="zones">
        {Intl.supportedValuesOf('timeZone').map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
      <p id="zone-hint" className={wrong ? 'error' : 'soft'}>
        {wrong ? t.metrics.zoneUnknown : t.metrics.zoneHint}
      </p>
      <button>{t.metrics.setZone}</button>
    </form>
  )
}
