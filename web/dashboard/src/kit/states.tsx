import { useEffect, useState, type ReactNode } from 'react'
import { reasonOf, Unreachable, type Read } from '../app/api.ts'
import { t } from '../app/texts.ts'
import { Code, Copy } from './bits.tsx'

/** Shows its content after 300 ms, so that quick answers cause no flicker. */
const Later = ({ children }: { children: ReactNode }) => {
  const [shown, setShown] = useState(false)
  useEffect(() => {
    const later = setTimeout(() => setShown(true), 300)
    return () => clearTimeout(later)
  }, [])
  return shown ? children : null
}

/** Grey lines in place of a content that is loading. */
export const Skeleton = ({ lines = 4 }: { lines?: number }) => (
  <Later>
    <div className="skeleton" role="status">
      <span className="hidden">{t.states.loading}</span>
      {Array.from({ length: lines }, (_, at) => (
        <div key={at} />
      ))}
    </div>
  </Later>
)

/** Says what a request has refused, whether it may help to repeat it, and the id for the operator. */
export const Failed = ({ error, again }: { error: Error; again?: () => void }) => {
  const { status, detail, request_id } = reasonOf(error)
  const text = error instanceof Unreachable ? t.states.unreachable : status === 403 ? t.states.forbidden : status === 404 ? t.states.missing : t.states.failed
  return (
    <div className="state bad" role="alert">
      <p>{text}</p>
      {detail !== '' && <p className="soft">{detail}</p>}
      {request_id !== null && (
        <p className="soft">
          {t.states.request} <code>{request_id}</code> <Copy text={request_id} label={t.copyId} />
        </p>
      )}
      {again && status !== 403 && status !== 404 && (
        <button type="button" onClick={again}>
          {t.states.again}
        </button>
      )}
    </div>
  )
}

/** There is nothing yet: one sentence, one button, and one command that does the same. */
export const Empty = ({ text, action, command }: { text: string; action?: ReactNode; command?: string }) => (
  <div className="state">
    <p>{text}</p>
    {action}
    {command && <Code text={command} label={t.command} />}
  </div>
)

/** Shows what a read has answered, or its state. */
export const Loaded = <T,>({ read, lines, children }: { read: Read<T>; lines?: number; children: (data: T) => ReactNode }) => {
  if (read.data !== undefined) return children(read.data)
  if (read.error) return <Failed error={read.error} again={read.again} />
  return <Skeleton {...(lines === undefined ? {} : { lines })} />
}
