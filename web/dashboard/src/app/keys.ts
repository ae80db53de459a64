import { useEffect } from 'react'
import { undoLast } from '../kit/toast.tsx'
import { codeDrawer, help, palette, shown } from './drawers.ts'
import { store } from './waiting.ts'

const keyOfSetting = 'bursar.single-keys'
/** Whether keys without Ctrl or ⌘ do anything. A reader who dictates texts switches them off. */
export const singleKeys = store(localStorage.getItem(keyOfSetting) !== 'off')
export const setSingleKeys = (on: boolean) => {
  localStorage.setItem(keyOfSetting, on ? 'on' : 'off')
  singleKeys.set(on)
}

/** True if the reader is typing, so that letters are text. */
export const isTyping = (event: KeyboardEvent): boolean =>
  event.target instanceof Element && event.target.closest('input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]') !== null

/** True if a dialog is open, over which the keys of the screen do nothing. */
const isCovered = () => document.querySelector('dialog[open]') !== null

/** The keys of all screens: ⌘K, `?`, `c`, `z`, `/` and `g` followed by the letter of a screen. */
export const useKeys = (): void =>
  useEffect(() => {
    // The time of the last `g`. A key in the first second of a page must not count as a jump.
    let jumping = -Infinity
    const press = (event: KeyboardEvent) => {
      if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === 'k') {
        event.preventDefault()
        palette.set(!palette.get())
        return
      }
      if (!singleKeys.get() || event.metaKey || event.ctrlKey || event.altKey || isTyping(event) || isCovered()) return
      if (event.timeStamp - jumping < 1500) {
        jumping = -Infinity
        const link = [...document.querySelectorAll<HTMLAnchorElement>('#screens a')].find(({ dataset }) => dataset.jump === event.key)
        if (link) {
          event.preventDefault()
          link.click()
        }
        return
      }
      if (event.key === 'g') jumping = event.timeStamp
      else if (event.key === '?') help.set(true)
      else if (event.key === 'c' && shown.get()) codeDrawer.set(true)
      else if (event.key === 'z') undoLast()
      else if (event.key === '/') {
        const field = document.querySelector<HTMLInputElement>('#app input[type=search]')
        if (!field) return
        event.preventDefault()
        field.focus()
      }
    }
    document.addEventListener('keydown', press)
    return () => document.removeEventListener('keydown', press)
  }, [])
