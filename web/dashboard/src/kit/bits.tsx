import { Check, Copy as CopyIcon } from 'lucide-react'
import { useEffect, useRef, useState, type ReactNode } from 'react'
import { t } from '../app/texts.ts'
import { distance, exactly, moment, money } from './format.ts'

/** A time near now as a distance, otherwise as a date. The exact time is in the title and for screen readers. */
export const Time = ({ at }: { at: string | Date }) => (
  <time dateTime={new Date(at).toISOString()} title={exactly(at)}>
    {distance(at) ?? moment(at)}
  </time>
)

/** An amount in minor units. A negative amount is a credit, and says so. `plain` leaves the word out. */
export const Money = ({ amount, currency, plain = false }: { amount: number; currency: string; plain?: boolean }) => (
  <span className="money">
    {money(amount, currency)}
    {amount < 0 && !plain && <span className="soft"> {t.credit}</span>}
  </span>
)

export type Tone = 'good' | 'bad' | 'wait' | 'off'
const shapes: Readonly<Record<Tone, ReactNode>> = {
  good: <path d="M1.5 5.2 4 7.5l4.5-5" fill="none" stroke="currentColor" strokeWidth="1.8" />,
  wait: <circle cx="5" cy="5" r="3.5" fill="none" stroke="currentColor" strokeWidth="1.8" strokeDasharray="2.6 1.8" />,
  bad: <path d="M5 1 9 8.5H1z" fill="currentColor" />,
  off: <rect x="1.5" y="4" width="7" height="2" fill="currentColor" />,
}

/** A state as a word with a shape of its own, so that it does not depend on colour alone. */
export const Status = ({ tone, children }: { tone: Tone; children: ReactNode }) => (
  <span className={`status ${tone}`}>
    <svg aria-hidden="true" viewBox="0 0 10 10" width="10" height="10">
      {shapes[tone]}
    </svg>
    {children}
  </span>
)

/** A button that copies a text, and says so. */
export const Copy = ({ text, label }: { text: string; label: string }) => {
  const [done, setDone] = useState(false)
  useEffect(() => {
    if (!done) return undefined
    const later = setTimeout(() => setDone(false), 2000)
    return () => clearTimeout(later)
  }, [done])
  return (
    <button
      type="button"
      className="icon"
      aria-label={done ? t.copied : label}
      title={label}
      onClick={() => void navigator.clipboard.writeText(text).then(() => setDone(true))}
    >
      {done ? <Check size={14} aria-hidden /> : <CopyIcon size={14} aria-hidden />}
    </button>
  )
}

/** An identifier, with a button that copies it. */
export const Id = ({ value }: { value: string }) => (
  <span className="id">
    <code>{value}</code>
    <Copy text={value} label={t.copyId} />
  </span>
)

/** JSON as the API sends it. */
export const Json = ({ value, label }: { value: unknown; label: string }) => {
  const text = JSON.stringify(value, null, 2)
  return (
    <div className="code">
      <Copy text={text} label={t.copy} />
      <pre tabIndex={0} aria-label={label}>
        {text}
      </pre>
    </div>
  )
}

/** A text of several lines that is meant to be copied. */
export const Code = ({ text, label }: { text: string; label: string }) => (
  <div className="code">
    <Copy text={text} label={t.copy} />
    <pre tabIndex={0} aria-label={label}>
      {text}
    </pre>
  </div>
)

/** A button whose content appears below it, and closes by Escape or a click elsewhere. */
export const Popover = ({ label, children, className = '' }: { label: ReactNode; children: ReactNode; className?: string }) => {
  const ref = useRef<HTMLDetailsElement>(null)
  useEffect(() => {
    const close = (event: Event) => {
      const here = ref.current
      if (!here?.open) return
      if (event instanceof KeyboardEvent ? event.key === 'Escape' : !here.contains(event.target as Node)) {
        here.open = false
        if (event instanceof KeyboardEvent) here.querySelector('summary')?.focus()
      }
    }
    document.addEventListener('click', close)
    document.addEventListener('keydown', close)
    return () => {
      document.removeEventListener('click', close)
      document.removeEventListener('keydown', close)
    }
  }, [])
  return (
    <details className={`popover ${className}`} ref={ref}>
      <summary>{label}</summary>
      <div className="sheet">{children}</div>
    </details>
  )
}

/** Progress as numbers and as a bar. */
export const Bar = ({ done, of, label }: { done: number; of: number; label: string }) => (
  <div className="progress">
    <p aria-live="polite">{label}</p>
    <progress aria-label={label} value={done} max={Math.max(1, of)} />
  </div>
)
