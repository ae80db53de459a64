import { Refused } from '@bursar/contract/client'
import { useEffect, useId, useState, type FormEvent, type ReactNode } from 'react'
import { t } from '../app/texts.ts'
import { Failed } from './states.tsx'

/** The facts of one field of a request. */
export interface FieldFacts {
  readonly type: 'string' | 'integer' | 'number' | 'boolean'
  readonly format?: string
  readonly choices?: readonly string[]
  readonly minLength?: number
  readonly maxLength?: number
  readonly minimum?: number
  readonly maximum?: number
  readonly required: boolean
}
/** The plain fields of a request, by name. The build generates it from the contract. */
export type Descriptor = Readonly<Record<string, FieldFacts>>

/** The messages of a refused request by field, and the messages that no field of the form can show. */
export const complaintsOf = (error: Error | null): Readonly<Record<string, string>> => {
  if (!(error instanceof Refused) || !Array.isArray(error.reply.body.detail)) return {}
  const details = error.reply.body.detail as readonly { loc: readonly (string | number)[]; msg: string }[]
  return Object.fromEntries(details.map(({ loc, msg }) => [loc.filter((part) => part !== 'body' && part !== 'query').join('.'), msg]))
}

/** A label, its control, a hint and the complaint of the server. */
export const Labelled = ({
  label,
  hint,
  complaint,
  children,
}: {
  label: string
  hint?: string | undefined
  complaint?: string | undefined
  children: (control: { id: string; 'aria-describedby': string | undefined; 'aria-invalid': true | undefined }) => ReactNode
}) => {
  const id = useId()
  const described = [hint && `${id}-hint`, complaint && `${id}-error`].filter(Boolean).join(' ')
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {hint && (
        <p id={`${id}-hint`} className="soft">
          {hint}
        </p>
      )}
      {children({ id, 'aria-describedby': described === '' ? undefined : described, 'aria-invalid': complaint ? true : undefined })}
      {complaint && (
        <p id={`${id}-error`} className="error">
          {complaint}
        </p>
      )}
    </div>
  )
}

export interface FieldProps {
  readonly name: string
  readonly label: string
  readonly facts?: FieldFacts | undefined
  readonly hint?: string | undefined
  readonly complaint?: string | undefined
  readonly value?: string | undefined
  readonly choices?: readonly (readonly [string, string])[] | undefined
  readonly multiline?: boolean
  readonly type?: string
  readonly onChange?: (value: string) => void
  readonly autoFocus?: boolean
  readonly placeholder?: string
  readonly required?: boolean
}

/** A field of a form. Its limits come from the contract, so that the browser checks what the server checks. */
export const Field = ({
  name,
  label,
  facts,
  hint,
  complaint,
  value,
  choices,
  multiline = false,
  type,
  onChange,
  autoFocus,
  placeholder,
  required,
}: FieldProps) => {
  const shared = {
    name,
    defaultValue: value,
    required: required ?? facts?.required ?? false,
    autoFocus,
    placeholder,
    onChange: (event: { target: { value: string } }) => onChange?.(event.target.value),
  }
  return (
    <Labelled label={shared.required ? label : `${label} (${t.optional})`} hint={hint} complaint={complaint}>
      {(control) =>
        choices ? (
          <select {...control} {...shared}>
            {choices.map(([key, text]) => (
              <option key={key} value={key}>
                {text}
              </option>
            ))}
          </select>
        ) : multiline ? (
          <textarea {...control} {...shared} rows={3} maxLength={facts?.maxLength} />
        ) : (
          <input
            {...control}
            {...shared}
            type={type ?? (facts?.type === 'integer' || facts?.type === 'number' ? 'number' : facts?.format === 'email' ? 'email' : 'text')}
            min={facts?.minimum}
            max={facts?.maximum}
            minLength={facts?.minLength === 0 ? undefined : facts?.minLength}
            maxLength={facts?.maxLength}
            autoComplete="off"
          />
        )
      }
    </Labelled>
  )
}

/** A form that sends one request. `⌘Enter` sends it, and the browser warns before typed texts are lost. */
export const Form = ({
  children,
  onSend,
  error,
  busy,
  send,
  fields,
  onCancel,
  label,
}: {
  children: ReactNode
  onSend: (data: FormData) => void
  error: Error | null
  busy: boolean
  send: string
  /** The names of the fields that show their own complaints. */
  fields: readonly string[]
  onCancel?: () => void
  label: string
}) => {
  const [touched, setTouched] = useState(false)
  useEffect(() => {
    if (!touched) return undefined
    const warn = (event: BeforeUnloadEvent) => event.preventDefault()
    window.addEventListener('beforeunload', warn)
    return () => window.removeEventListener('beforeunload', warn)
  }, [touched])
  const complaints = Object.entries(complaintsOf(error)).filter(([name]) => !fields.includes(name))
  return (
    <form
      aria-label={label}
      onInput={() => setTouched(true)}
      onKeyDown={(event) => {
        if (event.key === 'Enter' && (event.metaKey || event.ctrlKey)) event.currentTarget.requestSubmit()
      }}
      onSubmit={(event: FormEvent<HTMLFormElement>) => {
        event.preventDefault()
        setTouched(false)
        onSend(new FormData(event.currentTarget))
      }}
    >
      {children}
      {error && Object.keys(complaintsOf(error)).length === 0 && <Failed error={error} />}
      {complaints.length > 0 && (
        <ul className="error" role="alert">
          {complaints.map(([name, text]) => (
            <li key={name}>{`${name}: ${text}`}</li>
          ))}
        </ul>
      )}
      <div className="actions">
        {onCancel && (
          <button type="button" onClick={onCancel}>
            {t.cancel}
          </button>
        )}
        <button className="primary" aria-busy={busy} disabled={busy}>
          {send}
        </button>
      </div>
    </form>
  )
}

/** The text of a field, or null if it is empty. */
export const textOf = (data: FormData, name: string): string | null => {
  const value = data.get(name)
  return typeof value === 'string' && value.trim() !== '' ? value.trim() : null
}
