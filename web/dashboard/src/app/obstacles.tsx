import { lazy, Suspense, useEffect, useState } from 'react'
import { Dialog } from '../kit/dialog.tsx'
import { tryAgain } from './api.ts'
import { t } from './texts.ts'
import { obstacle } from './waiting.ts'

const Confirming = lazy(() => import('../parts/confirming.tsx'))

/** Says what keeps requests from being answered. Requests go on by themselves as soon as it has passed. */
export const Obstacles = () => {
  const found = obstacle.use()
  if (found === null) return null
  if (found.kind === 'lapsed') return <Lapsed />
  if (found.kind === 'stale')
    return (
      <Suspense fallback={null}>
        <Confirming />
      </Suspense>
    )
  if (found.kind === 'limited') return <Limited until={found.until} />
  return (
    <div className="banner" role="status">
      {t.states.offline}
    </div>
  )
}

const Limited = ({ until }: { until: number }) => {
  const [now, setNow] = useState(Date.now())
  useEffect(() => {
    const tick = setInterval(() => setNow(Date.now()), 500)
    return () => clearInterval(tick)
  }, [])
  return (
    <div className="banner" role="status">
      {t.states.limited(Math.max(1, Math.ceil((until - now) / 1000)))}
    </div>
  )
}

/** The session has ended. The reader signs in in another tab, and this one goes on with everything that was typed. */
const Lapsed = () => {
  const [failed, setFailed] = useState(false)
  useEffect(() => {
    const look = () => {
      if (document.visibilityState === 'visible') void tryAgain()
    }
    document.addEventListener('visibilitychange', look)
    window.addEventListener('focus', look)
    return () => {
      document.removeEventListener('visibilitychange', look)
      window.removeEventListener('focus', look)
    }
  }, [])
  return (
    <Dialog title={t.lapsed.title}>
      <p>{t.lapsed.text}</p>
      {failed && (
        <p className="error" role="alert">
          {t.lapsed.still}
        </p>
      )}
      <div className="actions">
        <button type="button" onClick={() => void tryAgain().then((done) => setFailed(!done))}>
          {t.lapsed.again}
        </button>
        <a className="button primary" href={`/login?return_to=${encodeURIComponent('/dashboard')}`} target="_blank" rel="noreferrer">
          {t.lapsed.signIn}
        </a>
      </div>
    </Dialog>
  )
}
