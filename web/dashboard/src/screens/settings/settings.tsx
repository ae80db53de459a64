import { lazy, Suspense } from 'react'
import { may } from '../../app/island.ts'
import { one, useSearch } from '../../app/search.ts'
import { t } from '../../app/texts.ts'
import { Head, Tabs } from '../../kit/layout.tsx'
import { Skeleton } from '../../kit/states.tsx'

const tabs = {
  people: lazy(() => import('./people.tsx')),
  organization: lazy(() => import('./organization.tsx')),
  tokens: lazy(() => import('./tokens.tsx')),
  taxes: lazy(() => import('./taxes.tsx')),
}
type Tab = keyof typeof tabs

/** The settings of the organization. A role sees only the parts that it may read. */
export const Settings = () => {
  const isHead = may('organization:manage')
  const names: Tab[] = [
    ...(isHead ? ['organization' as const] : []),
    ...(may('members:read') ? ['people' as const] : []),
    ...(isHead ? ['tokens' as const] : []),
    ...(isHead && may('finance:read') ? ['taxes' as const] : []),
  ]
  const wanted = one(useSearch().tab)
  const current = names.find((name) => name === wanted) ?? names[0]
  // The navigation does not link here for such a role, but an address may.
  if (current === undefined)
    return (
      <>
        <Head title={t.settings.title} />
        <div className="state bad" role="alert">
          <p>{t.states.forbidden}</p>
        </div>
      </>
    )
  const Part = tabs[current]
  return (
    <>
      <Head title={t.settings.title} />
      <Tabs label={t.parts} current={current} tabs={names.map((name) => ({ name, label: t.settings.tabs[name] }))} />
      <Suspense fallback={<Skeleton lines={6} />}>
        <Part />
      </Suspense>
    </>
  )
}
