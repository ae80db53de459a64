import { Plus, X } from 'lucide-react'
import { useEffect, useState, type FormEvent } from 'react'
import { island } from '../app/island.ts'
import { many, one, useSearch, useSetSearch, type Search } from '../app/search.ts'
import { t } from '../app/texts.ts'
import { Popover } from './bits.tsx'

export type Filter =
  | { readonly kind: 'text'; readonly key: string; readonly label: string; readonly placeholder?: string }
  | { readonly kind: 'choices'; readonly key: string; readonly label: string; readonly options: readonly (readonly [string, string])[] }
  | { readonly kind: 'choice'; readonly key: string; readonly label: string; readonly options: readonly (readonly [string, string])[] }
  | { readonly kind: 'days'; readonly key: string; readonly label: string; readonly from: string; readonly to: string }

/** The parts of the address that the filters use. */
export const keysOf = (filters: readonly Filter[]): readonly string[] =>
  filters.flatMap((filter) => (filter.kind === 'days' ? [filter.from, filter.to] : [filter.key]))

const firstPage = { cursor: undefined, at: undefined }

export interface View {
  readonly name: string
  readonly search: Search
}

/** The filters of a list and its saved views. The address holds all of them. */
export const Filters = ({ filters, views, name }: { filters: readonly Filter[]; views: readonly View[]; name: string }) => (
  <div className="filters">
    <Views filters={filters} views={views} name={name} />
    <div className="filter-row" role="search">
      {filters.map((filter) => (
        <Control key={filter.key} filter={filter} />
      ))}
    </div>
  </div>
)

const Control = ({ filter }: { filter: Filter }) => {
  const search = useSearch()
  const setSearch = useSetSearch()
  const change = (parts: Search) => setSearch({ ...firstPage, ...parts })
  if (filter.kind === 'text')
    return (
      <TextFilter
        key={one(search[filter.key]) ?? ''}
        filter={filter}
        value={one(search[filter.key]) ?? ''}
        onChange={(value) => change({ [filter.key]: value === '' ? undefined : value })}
      />
    )
  if (filter.kind === 'days') {
    const [from, to] = [one(search[filter.from]), one(search[filter.to])]
    return (
      <Popover label={<Chip label={filter.label} value={[from, to].filter(Boolean).join(' – ')} />}>
        <div className="days">
          <label>
            {t.table.from}
            <input type="date" value={from ?? ''} max={to} onChange={({ target }) => change({ [filter.from]: target.value || undefined })} />
          </label>
          <label>
            {t.table.to}
            <input type="date" value={to ?? ''} min={from} onChange={({ target }) => change({ [filter.to]: target.value || undefined })} />
          </label>
          {(from ?? to) !== undefined && (
            <button type="button" onClick={() => change({ [filter.from]: undefined, [filter.to]: undefined })}>
              {t.table.remove}
            </button>
          )}
        </div>
      </Popover>
    )
  }
  const chosen = many(search[filter.key])
  const names = filter.options.filter(([key]) => chosen.includes(key)).map(([, text]) => text)
  return (
    <Popover label={<Chip label={filter.label} value={names.length > 2 ? t.table.several(names.length) : names.join(', ')} />}>
      <fieldset>
        <legend className="hidden">{filter.label}</legend>
        {filter.options.map(([key, text]) => (
          <label key={key} className="choice">
            <input
              type="checkbox"
              checked={chosen.includes(key)}
              onChange={({ target }) => {
                const others = filter.kind === 'choice' ? [] : chosen.filter((one) => one !== key)
                const list = target.checked ? [...others, key] : others
                change({ [filter.key]: list.length === 0 ? undefined : list })
              }}
            />
            {text}
          </label>
        ))}
      </fieldset>
    </Popover>
  )
}

const Chip = ({ label, value }: { label: string; value: string }) =>
  value === '' ? (
    <>
      <Plus size={12} aria-hidden /> {label}
    </>
  ) : (
    <>
      {label}: <strong>{value}</strong>
    </>
  )

const TextFilter = ({ filter, value, onChange }: { filter: Extract<Filter, { kind: 'text' }>; value: string; onChange: (value: string) => void }) => {
  const [text, setText] = useState(value)
  useEffect(() => {
    if (text === value) return undefined
    const later = setTimeout(() => onChange(text.trim()), 350)
    return () => clearTimeout(later)
    // oxlint-disable-next-line react-hooks/exhaustive-deps -- only typing starts the timer
  }, [text])
  return (
    <input
      type="search"
      aria-label={filter.label}
      placeholder={filter.placeholder ?? filter.label}
      value={text}
      onChange={({ target }) => setText(target.value)}
      onKeyDown={(event) => {
        if (event.key === 'Enter') onChange(text.trim())
        if (event.key === 'Escape') event.currentTarget.blur()
      }}
    />
  )
}

const isView = (value: unknown): value is View => typeof value === 'object' && value !== null && 'name' in value && 'search' in value

/** Reads the saved views of a list from the browser. A broken entry counts as none. */
const readViews = (key: string): View[] => {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(key) ?? '[]')
    return Array.isArray(found) ? found.filter(isView) : []
  } catch {
    return []
  }
}

const Views = ({ filters, views, name }: { filters: readonly Filter[]; views: readonly View[]; name: string }) => {
  const search = useSearch()
  const setSearch = useSetSearch()
  const key = `bursar.views.${island.organization.id}.${name}`
  const [saved, setSaved] = useState(() => readViews(key))
  const [naming, setNaming] = useState(false)
  const parts = [...keysOf(filters), 'sort', 'hide']
  const stateOf = (one: Search) => JSON.stringify(parts.map((part) => many(one[part])))
  const current = stateOf(search)
  const keep = (list: View[]) => {
    localStorage.setItem(key, JSON.stringify(list))
    setSaved(list)
  }
  const show = (view: View) => setSearch({ ...Object.fromEntries(parts.map((part) => [part, undefined])), ...firstPage, ...view.search })
  const all: readonly View[] = [{ name: t.table.all, search: {} }, ...views]
  const isKnown = [...all, ...saved].some((view) => stateOf(view.search) === current)
  const save = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const given = new FormData(event.currentTarget).get('name')
    const text = typeof given === 'string' ? given.trim() : ''
    if (text !== '')
      keep([
        ...saved.filter((view) => view.name !== text),
        { name: text, search: Object.fromEntries(parts.flatMap((part) => (search[part] === undefined ? [] : [[part, search[part]]]))) },
      ])
    setNaming(false)
  }
  return (
    <div className="views" role="group" aria-label={t.table.views}>
      {all.map((view) => (
        <button key={view.name} type="button" aria-pressed={stateOf(view.search) === current} onClick={() => show(view)}>
          {view.name}
        </button>
      ))}
      {saved.map((view) => (
        <span key={view.name} className="saved">
          <button type="button" aria-pressed={stateOf(view.search) === current} onClick={() => show(view)}>
            {view.name}
          </button>
          <button type="button" className="icon" aria-label={t.table.forget(view.name)} onClick={() => keep(saved.filter((one) => one !== view))}>
            <X size={12} aria-hidden />
          </button>
        </span>
      ))}
      {!isKnown &&
        (naming ? (
          <form onSubmit={save}>
            <input name="name" aria-label={t.table.viewName} placeholder={t.table.viewName} maxLength={40} autoFocus required />
            <button>{t.table.saveView}</button>
          </form>
        ) : (
          <button type="button" className="quiet" onClick={() => setNaming(true)}>
            {t.table.saveView}
          </button>
        ))}
    </div>
  )
}
