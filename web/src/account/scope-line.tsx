import type { Scope } from '@bursar/contract'
import type { Frame } from '@bursar/views'
import { textsIn } from '../kit/index.ts'
import { accountTexts } from './texts.ts'

/** A scope as a sentence, marked as read or write. */
export const ScopeLine = ({ frame, scope, fresh = false }: { frame: Frame; scope: Scope; fresh?: boolean }) => {
  const shared = textsIn(frame, accountTexts)
  const writes = scope.endsWith(':write')
  return (
    <li>
      <span className={`mark-${writes ? 'write' : 'read'}`}>{writes ? shared.marks.write : shared.marks.read}</span>
      <span>{shared.scopes[scope]}</span>
      {fresh && <span className="fresh">{shared.fresh}</span>}
    </li>
  )
}
