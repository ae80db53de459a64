import { addressOf } from '@bursar/contract/client'
import { exportOrders, OrderExportColumn } from '@bursar/contract'
import { useRef, useState } from 'react'
import { download } from '../../app/api.ts'
import { one, useSearch } from '../../app/search.ts'
import { t } from '../../app/texts.ts'
import { Bar, Code } from '../../kit/bits.tsx'
import { Dialog } from '../../kit/dialog.tsx'
import { bytes, seconds, zone } from '../../kit/format.ts'
import { curlOf } from '../../parts/snippets.ts'
import { filtersOf } from './filtering.ts'

type ExportColumn = (typeof OrderExportColumn.options)[number]

/** Counts the lines of a CSV file as it arrives. A line break inside quotes ends no line. */
export const lineCounter = () => {
  let lines = 0
  let quoted = false
  return (text: string): number => {
    for (const character of text) {
      if (character === '"') quoted = !quoted
      else if (character === '\n' && !quoted) lines++
    }
    return lines
  }
}

type State =
  | { readonly kind: 'ready' }
  | { readonly kind: 'running'; readonly done: number; readonly all: number; readonly began: number }
  | { readonly kind: 'done'; readonly name: string; readonly size: number }
  | { readonly kind: 'broken'; readonly done: number }

/** Time is told after three seconds, when the rate is known. */
const leftOf = ({ done, all, began }: { done: number; all: number; began: number }): string | null => {
  const passed = performance.now() - began
  return passed < 3000 || done === 0 ? null : seconds(Math.ceil(((all - done) * passed) / done / 1000))
}

const usual: readonly ExportColumn[] = OrderExportColumn.options.slice(0, 7)

/** Exports the filtered orders as CSV. The bar shows exact numbers, because the server sends the count of all rows first. */
const Export = ({ rows, onClose }: { rows: number; onClose: () => void }) => {
  const search = useSearch()
  const [columns, setColumns] = useState<readonly ExportColumn[]>(usual)
  const [state, setState] = useState<State>({ kind: 'ready' })
  const stopped = useRef(false)
  const url = addressOf(exportOrders, { query: { ...filtersOf(search), timezone: zone, columns } })
  const run = async () => {
    stopped.current = false
    const began = performance.now()
    let done = 0
    try {
      const answer = await download(url)
      if (!answer.ok || answer.body === null) throw new Error('refused')
      const all = Number(answer.headers.get('x-total-count') ?? rows)
      const count = lineCounter()
      const decoder = new TextDecoder()
      const parts: Uint8Array<ArrayBuffer>[] = []
      const reader = answer.body.getReader()
      let shown = 0
      for (;;) {
        const part = await reader.read()
        if (part.done) break
        if (stopped.current) {
          await reader.cancel()
          setState({ kind: 'ready' })
          return
        }
        parts.push(part.value)
        done = Math.max(0, count(decoder.decode(part.value, { stream: true })) - 1)
        if (performance.now() - shown > 100) {
          shown = performance.now()
          setState({ kind: 'running', done, all, began })
        }
      }
      const file = new Blob(parts, { type: 'text/csv' })
      const name = `orders-${new Date().toISOString().slice(0, 10)}.csv`
      const link = document.createElement('a')
      link.href = URL.createObjectURL(file)
      link.download = name
      link.click()
      URL.revokeObjectURL(link.href)
      setState({ kind: 'done', name, size: file.size })
    } catch {
      setState({ kind: 'broken', done })
    }
  }
  return (
    <Dialog title={t.sale.export.title} onClose={onClose} kind="wide">
      <p>{t.sale.export.about(rows)}</p>
      {one(search.email) !== undefined && <p className="soft">{t.sale.export.withoutEmail}</p>}
      <fieldset className="grid">
        <legend>{t.sale.export.columns}</legend>
        {OrderExportColumn.options.map((name) => (
          <label key={name} className="choice">
            <input
              type="checkbox"
              checked={columns.includes(name)}
              onChange={({ target }) => setColumns(OrderExportColumn.options.filter((one) => (one === name ? target.checked : columns.includes(one))))}
            />
            {t.sale.export.names[name]}
          </label>
        ))}
      </fieldset>
      <p className="soft">
        {t.sale.export.zone}: {zone}
      </p>
      <Code text={curlOf({ operation: exportOrders, input: { query: { ...filtersOf(search), timezone: zone, columns } } })} label="curl" />
      {state.kind === 'running' && <Bar done={state.done} of={state.all} label={t.sale.export.running(state.done, state.all, leftOf(state))} />}
      {state.kind === 'done' && <p role="status">{t.sale.export.done(state.name, bytes(state.size))}</p>}
      {state.kind === 'broken' && (
        <p className="error" role="alert">
          {t.sale.export.broken(state.done)}
        </p>
      )}
      <div className="actions">
        {state.kind === 'running' ? (
          <button type="button" onClick={() => void (stopped.current = true)}>
            {t.sale.export.stop}
          </button>
        ) : (
          <button type="button" onClick={onClose}>
            {t.close}
          </button>
        )}
        <button
          type="button"
          className="primary"
          aria-busy={state.kind === 'running'}
          disabled={state.kind === 'running' || columns.length === 0}
          onClick={() => void run()}
        >
          {state.kind === 'broken' ? t.sale.export.again : t.sale.export.start}
        </button>
      </div>
    </Dialog>
  )
}
export default Export
