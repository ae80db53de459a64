import type { AccountView, Frame } from '@bursar/views'
import { Document, textsIn } from '../../kit/index.ts'
import { de } from './de.ts'
import { en } from './en.ts'

const texts = { en, de }

type Props = { view: Extract<AccountView, { kind: 'mailbox' }>; frame: Frame }

export const Mailbox = ({ view, frame }: Props) => {
  const words = textsIn(frame, texts)
  return (
    <Document frame={frame} title={words.title}>
      <h1>{words.title}</h1>
      <p className="soft">{words.intro}</p>
      {view.letters.length === 0 && <p className="empty">{words.empty}</p>}
      <ul className="cards">
        {view.letters.map((letter, at) => (
          <li key={at} className="card">
            <h2>{letter.subject}</h2>
            <p className="soft">
              {words.to} {letter.to} · <time dateTime={letter.at.toISOString()}>{letter.at.toISOString().slice(0, 16).replace('T', ' ')} UTC</time>
            </p>
            <pre tabIndex={0} aria-label={letter.subject}>
              {letter.text}
            </pre>
          </li>
        ))}
      </ul>
    </Document>
  )
}
