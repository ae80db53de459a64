import { styleText } from 'node:util'
import { seconds, stopwatch } from '../platform/clock.ts'

/** Frames of the status line, and the time between two of them. */
const frames = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏']
const frameTime = 100
const widest = 30
/** Starts the line again and clears it. */
const clear = '\r\u001b[K'

const out = process.stderr
/** The number of columns that a line may fill. A full last column would wrap in some terminals. */
const columns = (): number => (out.columns || 80) - 1
const cut = (text: string, width: number): string => (text.length > width ? `${text.slice(0, Math.max(0, width - 1))}…` : text)

let bars = 0
let erase: (() => void) | undefined

/** Shows the progress of a long job on one line of the terminal. Prints nothing if stderr is not a terminal. */
export const openBar = (total: number) => {
  const shown = out.isTTY && total > 0
  if (shown) {
    clearStatus()
    bars++
  }
  return {
    show: (done: number): void => {
      if (!shown) return
      const part = Math.min(1, done / total)
      const text = ` ${String(Math.floor(part * 100)).padStart(3)} %  ${done} of ${total}`
      const width = Math.max(0, Math.min(widest, columns() - text.length))
      const full = Math.round(part * width)
      out.write(`${clear}${styleText('cyan', '█'.repeat(full), { stream: out })}${'░'.repeat(width - full)}${cut(text, columns())}`)
    },
    end: (): void => {
      if (!shown) return
      bars--
      out.write(clear)
    },
  }
}

/** Opens a progress bar at the first call of `told`, because the total is not known before. */
export const openLateBar = () => {
  let bar: ReturnType<typeof openBar> | undefined
  return { told: (done: number, all: number) => (bar ??= openBar(all)).show(done), end: () => bar?.end() }
}

/** Removes the status line, so that other output can be printed. */
export const clearStatus = (): void => erase?.()

/**
 * Says what a command is doing, on one line of the terminal. The line appears after a second, so quick commands show
 * none. Prints nothing if stderr is not a terminal, or while a bar is shown.
 */
export const openStatus = (first: string) => {
  if (!out.isTTY) return { say: (_: string) => {}, end: () => {} }
  let text = first
  let drawn = false
  const elapsed = stopwatch()
  const remove = () => {
    if (drawn) out.write(clear)
    drawn = false
  }
  const draw = () => {
    if (bars > 0 || elapsed() < 1 * seconds) return
    const frame = styleText('cyan', frames[Math.floor(elapsed() / frameTime) % frames.length]!, { stream: out })
    const since = `  ${Math.floor(elapsed() / seconds)} s`
    out.write(`${clear}${frame} ${cut(text, columns() - 2 - since.length)}${since}`)
    drawn = true
    erase = remove
  }
  const timer = setInterval(draw, frameTime)
  timer.unref()
  return {
    say: (next: string): void => void (text = next),
    end: (): void => {
      clearInterval(timer)
      remove()
    },
  }
}

/** Shows a status line while some work runs. */
export const withStatus = async <T>(text: string, work: (say: (next: string) => void) => Promise<T>): Promise<T> => {
  const status = openStatus(text)
  try {
    return await work(status.say)
  } finally {
    status.end()
  }
}
