import { SellerCountry, states, type Complaint, type Frame } from '@bursar/contract'
import { Choice, complaintAt, Field, speak } from '../kit.tsx'

type Line = 'line1' | 'line2' | 'postal_code' | 'city' | 'state'
type Mode = 'required' | 'optional' | 'disabled'

export const countryNames = ({ locale }: Frame) => new Intl.DisplayNames(locale, { type: 'region' })

/** In the order of the reader's alphabet. */
const countriesFor = (frame: Frame): { code: string; name: string }[] => {
  const names = countryNames(frame)
  const { compare } = new Intl.Collator(frame.locale)
  return SellerCountry.options.map((code) => ({ code, name: names.of(code) ?? code })).toSorted((one, other) => compare(one.name, other.name))
}

interface AddressProps {
  readonly frame: Frame
  /** What its fields are called, before the part. */
  readonly name: string
  readonly value: (part: Line | 'country') => string
  readonly complaints: readonly Complaint[]
  readonly modes: Readonly<Record<Line, Mode>>
  /** Without a country there is no address; where there may be none, nobody has to choose. */
  readonly required: boolean
  /** The country whose states can be chosen. */
  readonly country: string
  /** The button to press when the country or state was changed: its id. */
  readonly live?: string
}

/** An address, part by part: the country first, and its states to choose from where taxes ask for them. */
export const AddressFields = ({ frame, name, value, complaints, modes, required, country, live }: AddressProps) => {
  const { t } = speak(frame)
  const wrong = (part: string) => complaintAt(frame, complaints, name, part)
  const pressed = live === undefined ? {} : { live }
  const label = (part: Line) => (modes[part] === 'optional' ? `${t.checkout[part]} (${t.checkout.optional})` : t.checkout[part])
  const regions = states[country]
  // The state of another country says nothing in this one.
  const valueOf = (part: Line) => (part === 'state' && /^[A-Z]{2}-/.test(value(part)) && !value(part).startsWith(`${country}-`) ? '' : value(part))
  const line = (part: Line, autoComplete: string) =>
    modes[part] !== 'disabled' && (
      <Field
        name={`${name}.${part}`}
        label={label(part)}
        autoComplete={`billing ${autoComplete}`}
        required={modes[part] === 'required'}
        value={valueOf(part)}
        error={wrong(part)}
      />
    )
  return (
    <>
      <Choice
        name={`${name}.country`}
        label={t.checkout.country}
        value={value('country')}
        error={wrong('country')}
        required={required}
        autoComplete="billing country"
        {...pressed}
      >
        <option value="">{t.checkout.pickCountry}</option>
        {countriesFor(frame).map((one) => (
          <option key={one.code} value={one.code}>
            {one.name}
          </option>
        ))}
      </Choice>
      {line('line1', 'address-line1')}
      {line('line2', 'address-line2')}
      {modes.city !== 'disabled' && (
        <div className="pair">
          {line('postal_code', 'postal-code')}
          {line('city', 'address-level2')}
        </div>
      )}
      {modes.state !== 'disabled' &&
        (regions ? (
          <Choice
            name={`${name}.state`}
            label={label('state')}
            value={valueOf('state')}
            error={wrong('state')}
            required={modes.state === 'required'}
            autoComplete="billing address-level1"
            {...pressed}
          >
            <option value="">{t.checkout.pick}</option>
            {regions.map((letters) => (
              <option key={letters} value={`${country}-${letters}`}>
                {letters}
              </option>
            ))}
          </Choice>
        ) : (
          line('state', 'address-level1')
        ))}
    </>
  )
}
