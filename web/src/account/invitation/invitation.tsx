import type { AccountView, Frame } from '@bursar/views'
import { Document, Form, speak, textsIn } from '../../kit/index.ts'
import { de, en } from './texts.ts'

const texts = { en, de }

type Props = { view: Extract<AccountView, { kind: 'invitation' }>; frame: Frame }

/** The invitation to an organization that a mail links. Its reader accepts it with one button. */
export const Invitation = ({ view: { invited, token }, frame }: Props) => {
  const words = textsIn(frame, texts)
  if (!invited)
    return (
      <Document frame={frame} title={words.over} narrow>
        <div className="card">
          <h1>{words.over}</h1>
          <p>{words.overText}</p>
          <a className="button" href="/login?again=1">
            {words.again}
          </a>
        </div>
      </Document>
    )
  return (
    <Document frame={frame} title={words.title} narrow>
      <div className="card">
        <h1>{words.title}</h1>
        <p>{words.text(invited.organization, words.roles[invited.role] ?? invited.role)}</p>
        <p className="soft">{words.until(speak(frame).date(invited.until))}</p>
        <Form frame={frame} action="/invitations">
          <input type="hidden" name="token" value={token} />
          <button className="primary">{words.accept}</button>
        </Form>
      </div>
    </Document>
  )
}
