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
      <p>
        <a href="/mailbox/gallery">{words.gallery}</a>
      </p>
      {view.letters.length === 0 && <p className="empty">{words.empty}</p>}
      <ul className="cards">
        {view.letters.map((letter, at) => (
          <li key={at} className="card">
            <h2>{letter.subject}</h2>
            <p className="soft">
              {words.to} {letter.to} · <time dateTime={letter.at.toISOString()}>{letter.at.toISOString().slice(0, 16).replace('T', ' ')} UTC</time>
            </p>
            {letter.html_path !== null && <iframe className="mail" src={letter.html_path} title={letter.subject} loading="lazy" />}
            <details open={letter.html_path === null}>
              <summary>{words.text}</summary>
              <pre tabIndex={0} aria-label={letter.subject}>
                <Linked text={letter.text} />
              </pre>
            </details>
          </li>
        ))}
      </ul>
    </Document>
  )
}

/** Text in which every web address is a link. */
const Linked = ({ text }: { text: string }) => (
  <>
    {text.split(/(https?:\/\/\S+)/).map((part, at) =>
      at % 2 === 1 ? (
        <a key={at} href={part}>
          {part}
        </a>
      ) : (
        part
      ),
    )}
  </>
)
