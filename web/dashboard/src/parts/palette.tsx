import { useNavigate } from '@tanstack/react-router'
import { searchOrganization, type SearchKind } from '@bursar/contract'
import { useEffect, useState } from 'react'
import { Autocomplete, Input, Menu, MenuItem, MenuSection, Header, SearchField } from 'react-aria-components'
import { useRead } from '../app/api.ts'
import { codeDrawer, help, palette, shown } from '../app/drawers.ts'
import { base, island, may } from '../app/island.ts'
import { parseSearch } from '../app/search.ts'
import { t } from '../app/texts.ts'
import { Dialog } from '../kit/dialog.tsx'

interface Choice {
  readonly id: string
  readonly text: string
  readonly detail?: string | null
  readonly act: () => void
}
/** The screen that shows a found record. Undefined if no screen shows this kind. */
const pathOf = (kind: SearchKind, id: string, customer_id: string | null): string | undefined => {
  switch (kind) {
    case 'customer':
      return `/customers/${id}`
    case 'order':
      return `/orders/${id}`
    case 'product':
      return `/products/${id}`
    case 'event':
      return `/webhooks/events/${id}`
    case 'webhook_endpoint':
      return `/webhooks/${id}`
    case 'member':
      return `/customers/${customer_id}?tab=people`
    case 'license_key':
      return `/customers/${customer_id}?tab=grants`
    case 'subscription':
      return `/customers/${customer_id}`
    case 'benefit':
    case 'refund':
    case 'payment':
    case 'checkout':
    case 'discount':
      return undefined
  }
}

/** Finds screens and records, and opens what the reader chooses. */
const Palette = () => {
  const [text, setText] = useState('')
  const [late, setLate] = useState('')
  const navigate = useNavigate()
  useEffect(() => {
    const later = setTimeout(() => setLate(text.trim()), 200)
    return () => clearTimeout(later)
  }, [text])
  const found = useRead(searchOrganization, { query: { organization_id: [island.organization.id], query: late, limit: 5 } }, { enabled: late.length > 1 })
  const close = () => palette.set(false)
  const go = (to: string) => () => {
    const [path = '/', search = ''] = to.split('?')
    void navigate({ to: path as '/', search: parseSearch(search) as never })
  }
  const links = [...document.querySelectorAll<HTMLAnchorElement>('#screens a')]
  const fits = (one: string) => one.toLowerCase().includes(text.trim().toLowerCase())
  const screens = links
    .filter((link) => fits(link.textContent))
    .map((link): Choice => ({ id: link.href, text: link.textContent, detail: `g ${link.dataset.jump}`, act: go(link.pathname.slice(base.length) || '/') }))
  // The parts of the settings are found by their contents.
  const settings = (may('organization:manage') ? (['organization', 'people', 'tokens', 'taxes'] as const) : may('members:read') ? (['people'] as const) : [])
    .map((name): Choice => ({ id: `settings ${name}`, text: t.palette.settings[name], act: go(`/settings?tab=${name}`) }))
    .filter(({ text: name }) => text.trim() !== '' && fits(name))
  const actions: Choice[] = [
    { id: 'help', text: t.palette.help, detail: '?', act: () => help.set(true) },
    ...(shown.get() ? [{ id: 'code', text: t.palette.code, detail: 'c', act: () => codeDrawer.set(true) }] : []),
  ].filter(({ text: name }) => fits(name))
  const hits = late.length > 1 ? (found.data?.items ?? []).filter(({ kind }) => pathOf(kind, '', null) !== undefined) : []
  const groups: readonly (readonly [string, readonly Choice[]])[] = [
    [t.palette.screens, [...screens, ...settings]],
    ...[...Map.groupBy(hits, ({ kind }) => kind)].map(
      ([kind, list]) =>
        [
          t.palette.kinds[kind],
          list.map(({ id, title, detail, customer_id }): Choice => ({ id: `${kind} ${id}`, text: title, detail, act: go(pathOf(kind, id, customer_id)!) })),
        ] as const,
    ),
    [t.palette.actions, actions],
  ]
  const all = new Map(groups.flatMap(([, list]) => list).map((one) => [one.id, one]))
  return (
    <Dialog title={t.palette.title} onClose={close}>
      <div className="palette">
        <Autocomplete inputValue={text} onInputChange={setText}>
          <SearchField aria-label={t.palette.title} autoFocus>
            <Input placeholder={t.palette.placeholder} />
          </SearchField>
          <Menu
            aria-label={t.palette.title}
            renderEmptyState={() => <p className="soft">{t.palette.nothing}</p>}
            onAction={(key) => {
              const chosen = all.get(String(key))
              close()
              chosen?.act()
            }}
          >
            {groups
              .filter(([, list]) => list.length > 0)
              .map(([name, list]) => (
                <MenuSection key={name}>
                  <Header>{name}</Header>
                  {list.map(({ id, text: label, detail }) => (
                    <MenuItem key={id} id={id} textValue={label}>
                      <span>{label}</span>
                      {detail && <span className="soft">{detail}</span>}
                    </MenuItem>
                  ))}
                </MenuSection>
              ))}
          </Menu>
        </Autocomplete>
      </div>
    </Dialog>
  )
}
export default Palette
