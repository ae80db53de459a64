import type { Frame, Mishap } from '@bursar/views'
import { speak, textsIn } from '../kit/index.ts'
import { accountTexts } from './texts.ts'

/** The error of the submitted form, shown above the content of the page. */
export const Summary = ({ frame, mishap, more }: { frame: Frame; mishap: Mishap | null; more?: string | null }) => {
  const { t } = speak(frame)
  const shared = textsIn(frame, accountTexts)
  return (
    mishap && (
      <div className="notice bad" role="alert">
        <strong>{t.check}</strong>
        <p>
          {shared.mishaps[mishap]} {more}
        </p>
        {mishap === 'session_old' && <a href={`/login?again=1&return_to=${encodeURIComponent(frame.path)}`}>{shared.signIn}</a>}
      </div>
    )
  )
}
