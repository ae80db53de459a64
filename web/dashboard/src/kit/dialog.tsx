import { X } from 'lucide-react'
import { useEffect, useId, useRef, type ReactNode } from 'react'
import { t } from '../app/texts.ts'

/** The first field of a dialog. Without a field: its first button at the end. */
const firstFocus = ':is(input, select, textarea):not([type=hidden]), .dialog:not(:has(input, select, textarea)) > .actions > :first-child'

/** A dialog of the browser over the screen. Without `onClose` it cannot be closed by hand. */
export const Dialog = ({
  title,
  onClose,
  children,
  kind = 'box',
}: {
  title: string
  onClose?: () => void
  children: ReactNode
  kind?: 'box' | 'drawer' | 'wide'
}) => {
  const ref = useRef<HTMLDialogElement>(null)
  const id = useId()
  useEffect(() => {
    const before = document.activeElement
    ref.current?.showModal()
    // The browser would begin at the button that closes. Typing begins at the first field, and a question at its harmless answer.
    ref.current?.querySelector<HTMLElement>(firstFocus)?.focus()
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus()
    }
  }, [])
  return (
    <dialog
      ref={ref}
      className={kind}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault()
        onClose?.()
      }}
      onClick={(event) => {
        if (event.target === ref.current) onClose?.()
      }}
    >
      <div className="dialog">
        <div className="dialog-head">
          <h2 id={id}>{title}</h2>
          {onClose && (
            <button type="button" className="icon" aria-label={t.close} onClick={onClose}>
              <X size={16} aria-hidden />
            </button>
          )}
        </div>
        {children}
      </div>
    </dialog>
  )
}

/** Asks before an act with consequences. The text names them with numbers, and the button names the act. */
export const Confirm = ({
  title,
  children,
  act,
  busy = false,
  danger = true,
  error,
  onAct,
  onClose,
}: {
  title: string
  children: ReactNode
  act: string
  busy?: boolean
  danger?: boolean
  error?: ReactNode
  onAct: () => void
  onClose: () => void
}) => (
  <Dialog title={title} onClose={onClose}>
    {children}
    {error}
    <div className="actions">
      <button type="button" onClick={onClose}>
        {t.cancel}
      </button>
      <button type="button" className={danger ? 'danger' : 'primary'} aria-busy={busy} disabled={busy} onClick={onAct}>
        {act}
      </button>
    </div>
  </Dialog>
)
