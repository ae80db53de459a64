import { SellerCountry, stateNames } from '@bursar/contract'
import type { Complaint, Frame } from '@bursar/views'
import { Choice, complaintAt, Field, speak, textsIn } from '../index.ts'
import { de } from './de.ts'
import { en } from './en.ts'

const texts = { en, de }

type Line = 'line1' | 'line2' | 'postal_code' | 'city' | 'state'
type Mode = 'required' | 'optional' | 'disabled'

/** Returns the labels of the parts of an address. */
export const addressLabels = (frame: Frame) => textsIn(frame, texts)

export const countryNames = ({ locale }: Frame) => new Intl.DisplayNames(locale, { type: 'region' })

/** Lists the countries in the alphabetical order of the reader's language. */
const countriesFor = (frame: Frame): { code: string; name: string }[] => {
  const names = countryNames(frame)
  const { compare } = new Intl.Collator(frame.locale)
  return SellerCountry.options.map((code) => ({ code, name: names.of(code) ?? code })).toSorted((one, other) => compare(one.name, other.name))
}

/** Lists the states of a country by name. Undefined for a country whose states are free text. */
const statesFor = ({ locale }: Frame, country: string): { code: string; name: string }[] | undefined => {
  const names = stateNames[country]
  const { compare } = new Intl.Collator(locale)
  return (
    names &&
    Object.entries(names)
      .map(([letters, name]) => ({ code: `${country}-${letters}`, name }))
      .toSorted((one, other) => compare(one.name, other.name))
  )
}

interface AddressProps {
  readonly frame: Frame
  /** The prefix of the field names. */
  readonly name: string
  readonly value: (part: Line | 'country') => string
  readonly complaints: readonly Complaint[]
  readonly modes: Readonly<Record<Line, Mode>>
  /** True if the country, and therefore an address, is required. */
  readonly required: boolean
  /** The country that determines the list of states. */
  readonly country: string
  /** The id of the button that the script presses when a part changes on which the tax may depend. */
  readonly live?: string
  /** The name of the field that gets the focus when the page is shown. */
  readonly focus?: string | null
}

/** The fields of an address: the country first, and a list of its states if tax depends on them. */
export const AddressFields = ({ frame, name, value, complaints, modes, required, country, live, focus = null }: AddressProps) => {
  const { t } = speak(frame)
  const words = textsIn(frame, texts)
  const wrong = (part: string) => complaintAt(frame, complaints, name, part)
  const pressed = live === undefined ? {} : { live }
  const focused = (part: string) => focus === `${name}.${part}`
  const label = (part: Line) => (modes[part] === 'optional' ? `${words[part]} (${t.optional})` : words[part])
  const regions = statesFor(frame, country)
  // Leaves the state field empty if the stored state belongs to another country.
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
        autoFocus={focused(part)}
        {...(part === 'state' || part === 'postal_code' ? { ...pressed, late: true } : {})}
      />
    )
  return (
    <>
      <Choice
        name={`${name}.country`}
        label={words.country}
        value={value('country')}
        error={wrong('country')}
        required={required}
        autoComplete="billing country"
        autoFocus={focused('country')}
        {...pressed}
      >
        <option value="">{words.pickCountry}</option>
        {countriesFor(frame).map((one) => (
          <option key={one.code} value={one.code}>
            {one.name}
          </option>
        ))}
      </Choice>
      {line('line1', 'address-line1')}
      {line('line2', 'address-line2')}
      {(modes.city !== 'disabled' || modes.postal_code !== 'disabled') && (
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
            autoFocus={focused('state')}
            {...pressed}
          >
            <option value="">{t.pick}</option>
            {regions.map(({ code, name: state }) => (
              <option key={code} value={code}>
                {state}
              </option>
            ))}
          </Choice>
        ) : (
          line('state', 'address-level1')
        ))}
    </>
  )
}
