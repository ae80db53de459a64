import type { Frame, FrameView } from '@bursar/views'
import { Document, textsIn } from '../index.ts'
import { de } from './de.ts'
import { en } from './en.ts'

const texts = { en, de }

type Props = { view: Extract<FrameView, { kind: 'leaving' }>; frame: Frame }

export const Leaving = ({ view, frame }: Props) => {
  const words = textsIn(frame, texts)
  return (
    <Document frame={frame} title={words.title} narrow>
      <div className="card">
        <h1>{words.title}</h1>
        <p>
          <a href={view.to}>{words.link(new URL(view.to).host)}</a>
        </p>
      </div>
    </Document>
  )
}
