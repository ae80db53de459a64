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
}: {
  frame: Frame
  action: string
  children: ReactNode
  className?: string
  label?: string
  /** The part of the page that the response replaces, as a selector. */
  swap?: string
}) => (
  <form method="post" action={action} className={className} aria-label={label} data-swap={swap}>
    <input type="hidden" name="csrf" value={frame.csrf} />
    {children}
  </form>
)

export interface FieldProps {
  readonly name: string
  readonly label: string
  readonly value?: string
  readonly type?: string
  readonly hint?: string
  readonly error?: string | undefined
  readonly autoComplete?: string
  readonly inputMode?: 'numeric' | 'email' | 'text'
  readonly autoFocus?: boolean
  readonly required?: boolean
  readonly min?: number | undefined
  readonly max?: number | undefined
  /** The id of the button that the script presses when the value changes. */
  readonly live?: string
}

interface Said {
  readonly name: string
  readonly label: string
  readonly hint: string | undefined
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
  live,
}: FieldProps) => {
  return (
    <Labelled {...{ name, label, hint, error }}>
      <input
        id={name}
        name={name}
        type={type}
        defaultValue={value}
        autoComplete={autoComplete}
        inputMode={inputMode}
        autoCapitalize="none"
        spellCheck={false}
        required={required}
        min={min}
        max={max}
        data-live={live}
        autoFocus={autoFocus}
        {...described({ name, hint, error })}
      />
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
  children,
  hint,
}: {
  name: string
  label: string
  value: string
  error: string | undefined
  required?: boolean
  live?: string
  autoComplete?: string
  hint?: string | undefined
  children: ReactNode
}) => (
  <Labelled {...{ name, label, hint, error }}>
    <select id={name} name={name} defaultValue={value} required={required} data-live={live} autoComplete={autoComplete} {...described({ name, hint, error })}>
      {children}
    </select>
  </Labelled>
)
