import { X } from 'lucide-react'
import { t } from '../app/texts.ts'
import { store } from '../app/waiting.ts'

interface Toast {
  readonly id: number
  readonly text: string
  readonly undo?: () => void
}
const toasts = store<readonly Toast[]>([])
let last = 0
const remove = (id: number) => toasts.set(toasts.get().filter((one) => one.id !== id))

/** How long a message stays, in milliseconds. A message that can be taken back stays longer. */
const stays = { plain: 8000, undo: 30_000 }

/** Says what was done. With `undo` it offers to take it back, by its button or by the key `z`. */
export const toast = (text: string, undo?: () => void): void => {
  const id = ++last
  toasts.set([...toasts.get(), { id, text, ...(undo ? { undo } : {}) }])
  setTimeout(() => remove(id), undo ? stays.undo : stays.plain)
}

/** Takes the last change back for which a message offers it. Returns false if there is none. */
export const undoLast = (): boolean => {
  const last = toasts.get().findLast(({ undo }) => undo !== undefined)
  if (last === undefined) return false
  last.undo!()
  remove(last.id)
  return true
}

export const Toasts = () => (
  <div className="toasts" role="status" aria-live="polite">
    {toasts.use().map(({ id, text, undo }) => (
      <div key={id} className="toast">
        <span>{text}</span>
        {undo && (
          <button
            type="button"
            onClick={() => {
              undo()
              remove(id)
            }}
          >
            {t.undo}
          </button>
        )}
        <button type="button" className="icon" aria-label={t.close} onClick={() => remove(id)}>
          <X size={14} aria-hidden />
        </button>
      </div>
    ))}
  </div>
)
