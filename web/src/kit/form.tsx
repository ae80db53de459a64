import type { Frame } from '@bursar/views'
import type { ReactNode } from 'react'

/** A form with the CSRF token. */
export const Form = ({
  frame,
  action,
  children,
  className,
  label,
  swap,
  id,
  first,
  draft,
}: {
  frame: Frame
  action: string
  children: ReactNode
  className?: string
  label?: string
  /** The part of the page that the response replaces, as a selector. */
  swap?: string
  /** The id of the form, for controls outside of it. */
  id?: string
  /** The id of the button that the script presses when the reader enters the form for the first time. */
  first?: string | undefined
  /** The address to which the script sends what the reader has typed, so that a reload shows it again. */
  draft?: string
}) => (
  <form method="post" action={action} id={id} className={className} aria-label={label} data-swap={swap} data-first={first} data-draft={draft}>
    <input type="hidden" name="csrf" value={frame.csrf} />
    {children}
  </form>
)

export interface FieldProps {
  readonly name: string
  readonly label: ReactNode
  readonly value?: string
  readonly type?: string
  readonly hint?: ReactNode
  readonly error?: string | undefined
  readonly autoComplete?: string
  readonly inputMode?: 'numeric' | 'email' | 'text'
  readonly autoFocus?: boolean
  readonly required?: boolean
  readonly min?: number | string | undefined
  readonly max?: number | string | undefined
  readonly minLength?: number | undefined
  readonly maxLength?: number | undefined
  readonly placeholder?: string | undefined
  /** True for a field of several lines. */
  readonly multiline?: boolean | undefined
  /** The id of the button that the script presses when the value changes. */
  readonly live?: string | undefined
  /** True if the script presses that button only when the reader leaves the field, because half a value is an error. */
  readonly late?: boolean
  /** The id of the button that the Enter key presses in this field. Without it, Enter presses the first button of the form. */
  readonly enter?: string
}

interface Said {
  readonly name: string
  readonly label: ReactNode
  readonly hint: ReactNode
  readonly error: string | undefined
}

/** The label, hint and error around a form control. */
const Labelled = ({ name, label, hint, error, children }: Said & { readonly children: ReactNode }) => (
  <div className="field">
    <label htmlFor={name}>{label}</label>
    {hint && (
      <p id={`${name}-hint`} className="soft">
        {hint}
      </p>
    )}
    {children}
    {error && (
      <p id={`${name}-error`} className="error">
        {error}
      </p>
    )}
  </div>
)

/** Connects hint and error to their control for screen readers. */
const described = ({ name, hint, error }: Omit<Said, 'label'>) => ({
  'aria-describedby': [hint && `${name}-hint`, error && `${name}-error`].filter(Boolean).join(' ') || undefined,
  'aria-invalid': error ? true : undefined,
})

/** A labelled input, connected to its hint and its error. */
export const Field = ({
  name,
  label,
  value,
  type = 'text',
  hint,
  error,
  autoComplete = 'off',
  inputMode,
  autoFocus = false,
  required = true,
  min,
  max,
  minLength,
  maxLength,
  placeholder,
  multiline = false,
  live,
  late = false,
  enter,
}: FieldProps) => {
  const shared = {
    id: name,
    name,
    defaultValue: value,
    autoComplete,
    required,
    minLength,
    maxLength,
    placeholder,
    autoFocus,
    'data-live': live,
    'data-late': live !== undefined && late ? '' : undefined,
    'data-enter': enter,
    ...described({ name, hint, error }),
  }
  return (
    <Labelled {...{ name, label, hint, error }}>
      {multiline ? (
        <textarea {...shared} rows={4} />
      ) : (
        <input {...shared} type={type} inputMode={inputMode} autoCapitalize="none" spellCheck={false} min={min} max={max} />
      )}
    </Labelled>
  )
}

/** A select with label, hint and error, like a field. */
export const Choice = ({
  name,
  label,
  value,
  error,
  required = true,
  live,
  autoComplete,
  autoFocus = false,
  children,
  hint,
}: {
  name: string
  label: ReactNode
  value: string
  error: string | undefined
  required?: boolean
  live?: string
  autoComplete?: string
  autoFocus?: boolean
  hint?: ReactNode
  children: ReactNode
}) => (
  <Labelled {...{ name, label, hint, error }}>
    <select
      id={name}
      name={name}
      defaultValue={value}
      required={required}
      data-live={live}
      autoComplete={autoComplete}
      autoFocus={autoFocus}
      {...described({ name, hint, error })}
    >
      {children}
    </select>
  </Labelled>
)
