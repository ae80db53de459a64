import type { Frame } from '@bursar/views'
import { speak } from './speak.ts'

/** A button that copies the text of an element. It is shown only if scripts run. `what` names the text for screen readers. */
export const Copy = ({ frame, of, what }: { frame: Frame; of: string; what: string }) => {
  const { t } = speak(frame)
  return (
    <button type="button" className="copy" data-copy={of} data-says={t.copied}>
      {t.copy} <span className="hidden">{what}</span>
    </button>
  )
}
