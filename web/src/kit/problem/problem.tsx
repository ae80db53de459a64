import type { Frame, FrameView } from '@bursar/views'
import { Document, textsIn } from '../index.ts'
import { de } from './de.ts'
import { en } from './en.ts'

const texts = { en, de }

type Props = { view: Extract<FrameView, { kind: 'problem' }>; frame: Frame }

export const Problem = ({ view, frame }: Props) => {
  const words = textsIn(frame, texts)
  const waits = view.retry_after ?? null
  return (
    <Document frame={frame} title={words.title} narrow script={waits !== null} refresh={waits}>
      <div className="card">
        <h1>{words.title}</h1>
        <p>{words.known[view.error] ?? words.other}</p>
        {waits !== null && <p>{words.retrying(waits)}</p>}
        {view.status < 500 && waits === null && <p className="soft">{words.unchanged}</p>}
        {(view.description !== '' || view.request_id) && (
          <details open={view.description !== ''}>
            <summary>{words.developers}</summary>
            <p>
              <code>{view.error}</code>
              {view.description !== '' && `: ${view.description}`}
            </p>
            {view.request_id && (
              <p>
                {words.requestId} <code>{view.request_id}</code>
              </p>
            )}
          </details>
        )}
        {!view.visitor && (
          <p>
            <a href="/settings/apps">{words.home}</a>
          </p>
        )}
      </div>
    </Document>
  )
}
