import { localeNames, locales, type AccountView, type Frame } from '@bursar/views'
import { Document, textsIn } from '../../kit/index.ts'
import { de } from './de.ts'
import { en } from './en.ts'

const texts = { en, de }

type Props = { view: Extract<AccountView, { kind: 'mail-gallery' }>; frame: Frame }

/** A sample of every mail, in one language. */
export const MailGallery = ({ view, frame }: Props) => {
  const words = textsIn(frame, texts)
  return (
    <Document frame={frame} title={words.gallery}>
      <h1>{words.gallery}</h1>
      <p className="soft">{words.galleryIntro}</p>
      <p>
        {locales.map((locale) => (
          <span key={locale}>
            <a href={`/mailbox/gallery?in=${locale}`} lang={locale} aria-current={locale === view.shown ? 'page' : undefined}>
              {localeNames[locale]}
            </a>{' '}
          </span>
        ))}
        · <a href="/mailbox">{words.title}</a>
      </p>
      <ul className="cards">
        {view.mails.map(({ kind, subject, text, path }) => (
          <li key={path} className="card">
            <h2>
              <a href={path}>{subject}</a>
            </h2>
            <p className="soft">{kind}</p>
            <div className="parts">
              <iframe className="mail" src={path} title={subject} loading="lazy" />
              <pre tabIndex={0} aria-label={`${words.text}: ${subject}`}>
                {text}
              </pre>
            </div>
          </li>
        ))}
      </ul>
    </Document>
  )
}
