/** Shows the progress of a long job on one line of the terminal. Prints nothing if stderr is not a terminal. */
export const openBar = (total: number) => {
  const out = process.stderr
  const width = 30
  return {
    show: (done: number): void => {
      if (!out.isTTY || total === 0) return
      const part = Math.min(1, done / total)
      const full = Math.round(part * width)
      out.write(`\r${'█'.repeat(full)}${'░'.repeat(width - full)} ${String(Math.floor(part * 100)).padStart(3)} %  ${done} of ${total}`)
    },
    end: (): void => {
      if (out.isTTY && total > 0) out.write('\r\u001b[K')
    },
  }
}
