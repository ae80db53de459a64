import type { Frame } from '@bursar/views'
import { textsIn } from '../kit/index.ts'
import { de } from './de.ts'
import { en } from './en.ts'

/** The link back to the shop, if the seller has given one. */
export const Back = ({ to, frame }: { to: string | null; frame: Frame }) =>
  to === null ? null : (
    <a className="back" href={to}>
      {textsIn(frame, { en, de }).backTo}
    </a>
  )
