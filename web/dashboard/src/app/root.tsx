import { Outlet, useRouterState } from '@tanstack/react-router'
import { lazy, Suspense, useEffect, useRef } from 'react'
import { Head } from '../kit/layout.tsx'
import { Toasts } from '../kit/toast.tsx'
import { palette, help, codeDrawer } from './drawers.ts'
import { Obstacles } from './obstacles.tsx'
import { t } from './texts.ts'
import { useKeys } from './keys.ts'

const Palette = lazy(() => import('../parts/palette.tsx'))
const Help = lazy(() => import('../parts/help.tsx'))
const AsCode = lazy(() => import('../parts/as-code.tsx'))

/** The current screen, with everything that any screen may open over it. */
export const Root = () => {
  useKeys()
  const isPaletteOpen = palette.use()
  const isHelpOpen = help.use()
  const isCodeOpen = codeDrawer.use()
  const path = useRouterState({ select: ({ resolvedLocation }) => resolvedLocation?.pathname })
  const last = useRef<string>(undefined)
  // After a change of the screen, the keyboard continues at its heading. Screen readers then read the heading.
  useEffect(() => {
    if (last.current !== undefined && path !== undefined && last.current !== path)
      document.querySelector<HTMLElement>('#content')?.focus({ preventScroll: true })
    last.current = path
  }, [path])
  return (
    <>
      <Obstacles />
      <Suspense fallback={null}>
        <Outlet />
      </Suspense>
      <Toasts />
      <Suspense fallback={null}>
        {isPaletteOpen && <Palette />}
        {isHelpOpen && <Help />}
        {isCodeOpen && <AsCode />}
      </Suspense>
    </>
  )
}

export const Missing = () => (
  <>
    <Head title={t.missing.title} />
    <div className="state">
      <p>{t.missing.text}</p>
    </div>
  </>
)

/** The screen could not be shown: its script failed, or could not be loaded after an update of the server. */
export const ScreenFailed = () => (
  <>
    <Head title={t.states.failedTitle} />
    <div className="state bad" role="alert">
      <p>{t.states.screenFailed}</p>
      <button type="button" onClick={() => location.reload()}>
        {t.states.reload}
      </button>
    </div>
  </>
)
