import { columnVisibilityFeature, rowSelectionFeature, tableFeatures, useTable, type RowSelectionState } from '@tanstack/react-table'
import { Link, useRouter } from '@tanstack/react-router'
import { ArrowDown, ArrowUp, ChevronLeft, ChevronRight, Columns3 } from 'lucide-react'
import { useEffect, useMemo, useRef, useState, type ReactNode } from 'react'
import type { Read } from '../app/api.ts'
import { isTyping, singleKeys } from '../app/keys.ts'
import { many, one, useSearch, useSetSearch, type Search } from '../app/search.ts'
import { t } from '../app/texts.ts'
import { Popover } from './bits.tsx'
import { number } from './format.ts'
import { Failed, Skeleton } from './states.tsx'

export interface Column<Row> {
  readonly id: string
  readonly header: string
  readonly cell: (row: Row) => ReactNode
  /** `main` names the record and links to it. `amount` is aligned at its end. On a phone only `main`, `amount` and `fact` are shown. */
  readonly kind?: 'main' | 'amount' | 'fact'
  /** The name of the sort order in the API. */
  readonly sort?: string
}

export interface Listed<Row> {
  readonly items: readonly Row[]
  readonly pagination: { readonly total_count: number; readonly next_cursor: string | null }
}

/** Rows of one page. */
export const pageSize = 50

/** The parts of the address that every list understands. */
export const listing = (search: Search, usual: string) => ({ limit: pageSize, cursor: one(search.cursor), sorting: [one(search.sort) ?? usual] })

const features = tableFeatures({ columnVisibilityFeature, rowSelectionFeature })
const none: readonly never[] = []
/** The cursors to which this tab has moved forward, so that "previous" is a step back in its history. */
const forward = new Set<string>()

interface Props<Row> {
  readonly label: string
  readonly read: Read<Listed<Row>>
  readonly columns: readonly Column<Row>[]
  readonly idOf: (row: Row) => string
  readonly to: (row: Row) => string
  readonly usualSort: string
  /** Shown if the list has no rows at all. */
  readonly empty: ReactNode
  /** The parts of the address that filter the list. */
  readonly filters: readonly string[]
  /** Actions for the selected rows. Without it, rows cannot be selected. */
  readonly bulk?: (rows: readonly Row[]) => ReactNode
  readonly tools?: ReactNode
}

/** A list by pages of a cursor. Its address contains filters, order, columns and page, so that a reload shows the same. */
export const DataTable = <Row,>({ label, read, columns, idOf, to, usualSort, empty, filters, bulk, tools }: Props<Row>) => {
  const search = useSearch()
  const setSearch = useSetSearch()
  const { history, navigate } = useRouter()
  const [rowSelection, setRowSelection] = useState<RowSelectionState>({})
  const [active, setActive] = useState(-1)
  const body = useRef<HTMLTableSectionElement>(null)
  const rows = read.data?.items ?? none
  const hidden = many(search.hide)
  const definitions = useMemo(() => columns.map(({ id }) => ({ id, accessorFn: (row: Row) => row })), [columns])
  const table = useTable({
    features,
    columns: definitions,
    data: rows as never[],
    getRowId: (row: never) => idOf(row as Row),
    state: { rowSelection, columnVisibility: Object.fromEntries(hidden.map((id) => [id, false])) },
    onRowSelectionChange: setRowSelection,
  })
  const shown = table.getVisibleLeafColumns().map(({ id }) => columns.find((column) => column.id === id)!)
  const cursor = one(search.cursor)
  // While the next page loads, the rows and their numbers stay those of the previous page.
  const position = useRef(1)
  if (!read.isPlaceholder) position.current = Number(one(search.at) ?? 1)
  const first = position.current
  const { next_cursor = null, total_count = 0 } = read.data?.pagination ?? {}
  const next = () => {
    if (next_cursor === null) return
    forward.add(next_cursor)
    setSearch({ cursor: next_cursor, at: String(first + rows.length) })
  }
  const previous = () => (cursor !== undefined && forward.has(cursor) ? history.back() : setSearch({ cursor: undefined, at: undefined }))

  const wanted = useRef<'first' | 'last' | null>(null)
  const [last] = rows.slice(-1)
  const pageKey = rows.length === 0 ? '' : `${idOf(rows[0]!)} ${idOf(last!)}`
  useEffect(() => {
    setActive(wanted.current === 'first' ? 0 : wanted.current === 'last' ? rows.length - 1 : -1)
    wanted.current = null
    setRowSelection({})
    // oxlint-disable-next-line react-hooks/exhaustive-deps -- only another page resets the row
  }, [pageKey])
  useEffect(() => {
    if (active >= 0) (body.current?.rows[active] as HTMLElement | undefined)?.focus()
  }, [active, pageKey])

  const keys = useRef<(event: KeyboardEvent) => void>(() => undefined)
  keys.current = (event) => {
    if (!singleKeys.get() || event.metaKey || event.ctrlKey || event.altKey || isTyping(event) || document.querySelector('dialog[open]') !== null) return
    const row = rows[active]
    if (event.key === 'j') {
      if (active + 1 < rows.length) setActive(active + 1)
      else if (next_cursor !== null) {
        wanted.current = 'first'
        next()
      }
    } else if (event.key === 'k') {
      if (active > 0) setActive(active - 1)
      else if (cursor !== undefined) {
        wanted.current = 'last'
        previous()
      }
    } else if (event.key === 'x' && row && bulk) table.getRow(idOf(row)).toggleSelected()
    else if (event.key === 'Enter' && row && event.target === body.current?.rows[active]) void navigate({ to: to(row) as '/' })
    else return
    event.preventDefault()
  }
  useEffect(() => {
    const press = (event: KeyboardEvent) => keys.current(event)
    document.addEventListener('keydown', press)
    return () => document.removeEventListener('keydown', press)
  }, [])

  const isFiltered = filters.some((name) => search[name] !== undefined)
  const selected = rows.filter((row) => rowSelection[idOf(row)])
  if (read.data === undefined) return read.error ? <Failed error={read.error} again={read.again} /> : <Skeleton lines={10} />
  if (rows.length === 0 && cursor === undefined)
    return isFiltered ? (
      <div className="state">
        <p>{t.table.nothingFound}</p>
        <button type="button" onClick={() => setSearch(Object.fromEntries(filters.map((name) => [name, undefined])))}>
          {t.table.clear}
        </button>
      </div>
    ) : (
      empty
    )
  return (
    <div className="table" aria-busy={read.isPlaceholder}>
      <div className="table-bar">
        <p aria-live="polite">{selected.length > 0 ? t.table.selected(selected.length) : t.table.count(total_count)}</p>
        {selected.length > 0 && bulk?.(selected)}
        <div className="actions">
          {tools}
          <Popover
            label={
              <>
                <Columns3 size={14} aria-hidden /> {t.table.columns}
              </>
            }
            className="end"
          >
            <fieldset>
              <legend className="hidden">{t.table.columns}</legend>
              {columns
                .filter(({ kind }) => kind !== 'main')
                .map(({ id, header }) => (
                  <label key={id} className="choice">
                    <input
                      type="checkbox"
                      checked={!hidden.includes(id)}
                      onChange={({ target }) => setSearch({ hide: target.checked ? hidden.filter((one) => one !== id) : [...hidden, id] }, { replace: true })}
                    />
                    {header}
                  </label>
                ))}
            </fieldset>
          </Popover>
        </div>
      </div>
      <div className="scroll" tabIndex={-1}>
        <table aria-label={label}>
          <thead>
            <tr>
              {bulk && (
                <th scope="col" className="pick">
                  <input
                    type="checkbox"
                    aria-label={t.table.selectAll}
                    checked={selected.length === rows.length}
                    onChange={({ target }) => setRowSelection(target.checked ? Object.fromEntries(rows.map((row) => [idOf(row), true as const])) : {})}
                  />
                </th>
              )}
              {shown.map((column) => (
                <Heading
                  key={column.id}
                  column={column}
                  sort={one(search.sort) ?? usualSort}
                  onSort={(sort) => setSearch({ sort, cursor: undefined, at: undefined })}
                />
              ))}
            </tr>
          </thead>
          <tbody ref={body}>
            {rows.map((row, at) => (
              <tr
                key={idOf(row)}
                tabIndex={at === Math.max(0, active) ? 0 : -1}
                aria-selected={bulk ? Boolean(rowSelection[idOf(row)]) : undefined}
                onFocus={() => setActive(at)}
                onClick={(event) => {
                  if (!(event.target as Element).closest('a, button, input, label') && getSelection()?.isCollapsed !== false)
                    void navigate({ to: to(row) as '/' })
                }}
              >
                {bulk && (
                  <td className="pick">
                    <input
                      type="checkbox"
                      aria-label={t.table.select}
                      checked={Boolean(rowSelection[idOf(row)])}
                      onChange={() => table.getRow(idOf(row)).toggleSelected()}
                    />
                  </td>
                )}
                {shown.map(({ id, kind, cell }) =>
                  kind === 'main' ? (
                    <th key={id} scope="row" className="main">
                      <Link to={to(row) as '/'} tabIndex={-1}>
                        {cell(row)}
                      </Link>
                    </th>
                  ) : (
                    <td key={id} className={kind ?? 'more'}>
                      {cell(row)}
                    </td>
                  ),
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <div className="pages">
        <p>{t.table.range(number(first), number(first + rows.length - 1), number(total_count))}</p>
        <div className="actions">
          <button type="button" disabled={cursor === undefined} onClick={previous}>
            <ChevronLeft size={14} aria-hidden /> {t.table.previous}
          </button>
          <button type="button" disabled={next_cursor === null} onClick={next}>
            {t.table.next} <ChevronRight size={14} aria-hidden />
          </button>
        </div>
      </div>
    </div>
  )
}

const Heading = <Row,>({ column: { header, kind, sort }, sort: current, onSort }: { column: Column<Row>; sort: string; onSort: (sort: string) => void }) => {
  const direction = sort === undefined ? undefined : current === sort ? 'ascending' : current === `-${sort}` ? 'descending' : undefined
  return (
    <th scope="col" className={kind ?? 'more'} aria-sort={direction}>
      {sort === undefined ? (
        header
      ) : (
        <button type="button" onClick={() => onSort(direction === 'descending' ? sort : `-${sort}`)}>
          {header}
          {direction === 'ascending' && <ArrowUp size={12} aria-hidden />}
          {direction === 'descending' && <ArrowDown size={12} aria-hidden />}
        </button>
      )}
    </th>
  )
}
