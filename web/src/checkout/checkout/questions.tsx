import type { Frame } from '@bursar/views'
import type { ReactNode } from 'react'
import { Choice, Field, InlineMarkdown, speak, textsIn } from '../../kit/index.ts'
import { fieldAt, type Part } from './fields.ts'
import { texts } from './texts.ts'

type CustomField = NonNullable<Part['view']['offer']['attached_custom_fields']>[number]['custom_field']

const day = 86_400

/** Converts the bounds of a date field from seconds to the first and the last allowed day. */
const daysOf = ({ ge, le }: { ge?: number | undefined; le?: number | undefined }) => {
  const dayOf = (days: number) => new Date(days * day * 1000).toISOString().slice(0, 10)
  return { min: ge === undefined ? undefined : dayOf(Math.ceil(ge / day)), max: le === undefined ? undefined : dayOf(Math.floor(le / day)) }
}

/** Returns the limits of an answer in words, or undefined if it has none. */
const limitsOf = (frame: Frame, field: CustomField): string | undefined => {
  const { number, date } = speak(frame)
  const { limits } = textsIn(frame, texts)
  const between = (words: typeof limits.number, least: string | undefined, most: string | undefined) =>
    least === undefined ? most && words.atMost(most) : most === undefined ? words.atLeast(least) : words.between(least, most)
  const said = (value: number | undefined) => (value === undefined ? undefined : number(value))
  switch (field.type) {
    case 'text': {
      const { min_length, max_length } = field.properties
      return between(limits.characters, said(min_length || undefined), said(max_length))
    }
    case 'number':
      return between(limits.number, said(field.properties.ge), said(field.properties.le))
    case 'date': {
      const { min, max } = daysOf(field.properties)
      if (min === undefined) return max && limits.until(date(max))
      return max === undefined ? limits.from(date(min)) : limits.fromTo(date(min), date(max))
    }
    default:
      return undefined
  }
}

interface AskedProps extends Part {
  readonly field: CustomField
  readonly required: boolean
}

/** A custom field: its label, its help and limits, its input and its error. */
const Asked = ({ view, frame, field, required }: AskedProps) => {
  const { t } = speak(frame)
  const { form_label, form_help_text, form_placeholder: placeholder } = field.properties
  const limits = limitsOf(frame, field)
  const shared = {
    ...fieldAt({ view, frame }, `custom_field_data.${field.slug}`),
    label: (
      <>
        <InlineMarkdown source={form_label ?? field.name} />
        {!required && ` (${t.optional})`}
      </>
    ),
    hint: (form_help_text !== undefined || limits !== undefined) && (
      <>
        {form_help_text !== undefined && <InlineMarkdown source={form_help_text} />}
        {form_help_text !== undefined && limits !== undefined && ' '}
        {limits}
      </>
    ),
    required,
  }
  switch (field.type) {
    case 'checkbox':
      return <Box {...shared} />
    case 'select':
      return (
        <Choice {...shared}>
          <option value="">{placeholder ?? t.pick}</option>
          {field.properties.options.map((one) => (
            <option key={one.value} value={one.value}>
              {one.label}
            </option>
          ))}
        </Choice>
      )
    case 'number':
      return <Field {...shared} type="number" inputMode="numeric" placeholder={placeholder} min={field.properties.ge} max={field.properties.le} />
    case 'date':
      return <Field {...shared} type="date" {...daysOf(field.properties)} />
    case 'text': {
      const { textarea, min_length, max_length } = field.properties
      return <Field {...shared} placeholder={placeholder} multiline={textarea} minLength={min_length} maxLength={max_length} />
    }
  }
}

interface BoxProps {
  readonly name: string
  readonly value: string
  readonly label: ReactNode
  readonly hint: ReactNode
  readonly error: string | undefined
  readonly required: boolean
  readonly autoFocus: boolean
}

const Box = ({ name, value, label, hint, error, required, autoFocus }: BoxProps) => (
  <div className="field">
    <label className="choice">
      <input
        type="checkbox"
        id={name}
        name={name}
        defaultChecked={value === 'on'}
        required={required}
        autoFocus={autoFocus}
        aria-describedby={[hint && `${name}-hint`, error && `${name}-error`].filter(Boolean).join(' ') || undefined}
        aria-invalid={error ? true : undefined}
      />
      <span>{label}</span>
    </label>
    {hint && (
      <p id={`${name}-hint`} className="soft">
        {hint}
      </p>
    )}
    {error && (
      <p id={`${name}-error`} className="error">
        {error}
      </p>
    )}
  </div>
)

/** The seller's custom fields. */
export const Questions = ({ view, frame }: Part) => {
  const words = textsIn(frame, texts)
  const asked = view.offer.attached_custom_fields ?? []
  if (asked.length === 0) return <section id="questions" />
  return (
    <section id="questions" aria-labelledby="more">
      <h2 id="more">{words.more}</h2>
      {asked.map(({ custom_field: field, required }) => (
        <Asked key={field.slug} view={view} frame={frame} field={field} required={required} />
      ))}
    </section>
  )
}
