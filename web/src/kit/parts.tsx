import type { ReactNode } from 'react'

/** Progress as text and as a bar. The length of the bar is an attribute, because the content security policy forbids inline styles. */
export const Progress = ({ label, done, of }: { label: string; done: number; of: number }) => (
  <div className="progress">
    <p id="progress-label">{label}</p>
    <progress aria-labelledby="progress-label" value={done} max={Math.max(1, of)} />
  </div>
)

/** A state as a word with a symbol of its own, so that it does not depend on colour alone. */
export const Status = ({ kind, children }: { kind: 'good' | 'wait' | 'bad' | 'off'; children: ReactNode }) => (
  <span className={`status ${kind}`}>
    <svg aria-hidden="true" viewBox="0 0 10 10" width="10" height="10">
      {kind === 'good' && <path d="M1 5l3 3 5-6" fill="none" stroke="currentColor" strokeWidth="2" />}
      {kind === 'wait' && <circle cx="5" cy="5" r="4" fill="none" stroke="currentColor" strokeWidth="2" strokeDasharray="3 2" />}
      {kind === 'bad' && <path d="M5 1l4 8H1z" fill="currentColor" />}
      {kind === 'off' && <rect x="1" y="4" width="8" height="2" fill="currentColor" />}
    </svg>
    {children}
  </span>
)

export const Notice = ({ children, kind = 'good' }: { children: ReactNode; kind?: 'good' | 'warn' }) => (
  <div className={`notice ${kind}`} role={kind === 'good' ? 'status' : 'note'}>
    {children}
  </div>
)

/** An irreversible action: the first press shows the consequence, the second performs it. */
export const Confirm = ({ label, consequence, children }: { label: string; consequence: ReactNode; children: ReactNode }) => (
  <details className="confirm">
    <summary className="danger">{label}</summary>
    <p>{consequence}</p>
    {children}
  </details>
)
