import { listOrganizationTokens, revokeOrganizationToken } from '@bursar/contract'
import type { Received } from '@bursar/contract/kit'
import { lazy, Suspense, useState } from 'react'
import { useChange, useRead } from '../../app/api.ts'
import { useAsCode } from '../../app/drawers.ts'
import { island } from '../../app/island.ts'
import { t } from '../../app/texts.ts'
import { Time } from '../../kit/bits.tsx'
import { Confirm } from '../../kit/dialog.tsx'
import { Panel } from '../../kit/layout.tsx'
import { Failed, Loaded } from '../../kit/states.tsx'
import { toast } from '../../kit/toast.tsx'

const CreateToken = lazy(() => import('../../parts/access-token.tsx'))

type Token = Received<typeof listOrganizationTokens>['items'][number]

/** The access tokens of the organization: where they are used, when they end, and a button that revokes each. */
const Tokens = () => {
  const query = { organization_id: [island.organization.id], limit: 100, sorting: ['-created_at' as const] }
  const read = useRead(listOrganizationTokens, { query })
  useAsCode(listOrganizationTokens, { query })
  const [creating, setCreating] = useState(false)
  const [revoking, setRevoking] = useState<Token | null>(null)
  const s = t.settings.tokens
  return (
    <Panel
      title={s.title}
      actions={
        <button type="button" className="primary" onClick={() => setCreating(true)}>
          {t.home.token.create}
        </button>
      }
    >
      <p className="soft">{s.about}</p>
      <Loaded read={read}>
        {({ items }) =>
          items.length === 0 ? (
            <p className="soft">{s.none}</p>
          ) : (
            <ul className="rows">
              {items.map((token) => (
                <li key={token.id}>
                  <span>
                    {token.comment} <code className="soft">{token.hint}</code>
                    <div className="soft">
                      {token.scopes.some((scope) => scope.endsWith(':write')) ? s.writes(token.scopes.length) : s.reads(token.scopes.length)}
                    </div>
                  </span>
                  <span className="soft">
                    {token.last_used_at === null ? (
                      s.unused
                    ) : (
                      <>
                        {s.used} <Time at={token.last_used_at} />
                      </>
                    )}
                  </span>
                  <span className="soft">
                    {token.expires_at === null ? (
                      s.endless
                    ) : (
                      <>
                        {s.expires} <Time at={token.expires_at} />
                      </>
                    )}
                  </span>
                  <button type="button" aria-label={s.revokeOf(token.comment)} onClick={() => setRevoking(token)}>
                    {s.revoke}
                  </button>
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
      {creating && (
        <Suspense fallback={null}>
          <CreateToken onClose={() => setCreating(false)} />
        </Suspense>
      )}
      {revoking && <Revoke token={revoking} onClose={() => setRevoking(null)} />}
    </Panel>
  )
}
export default Tokens

const Revoke = ({ token, onClose }: { token: Token; onClose: () => void }) => {
  const revoke = useChange(revokeOrganizationToken, ['organization_access_tokens'])
  const s = t.settings.tokens
  return (
    <Confirm
      title={s.revokeOf(token.comment)}
      act={s.revoke}
      busy={revoke.isPending}
      error={revoke.error && <Failed error={revoke.error} />}
      onClose={onClose}
      onAct={() =>
        revoke.mutate(
          { params: { id: token.id } },
          {
            onSuccess: () => {
              toast(s.revoked)
              onClose()
            },
          },
        )
      }
    >
      <p>{s.revokeAbout}</p>
    </Confirm>
  )
}
