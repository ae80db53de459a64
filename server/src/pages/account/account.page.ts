import { isScope, type Scope } from '@bursar/contract'
import { tokenDays, tokenPresets, type Mishap, type View } from '@bursar/views'
import { scopeOf, type UserActor } from '../../kernel/actors.ts'
import type { Page, PageAnswer, PageCall } from '../../modules/handlers.ts'
import {
  beginFactor,
  confirmFactor,
  cookieName,
  countSessions,
  endFactor,
  factorOf,
  findOrganizationToken,
  findPersonalToken,
  freshFor,
  issueOrganizationToken,
  issuePersonalToken,
  listGrantsOf,
  listOrganizationTokens,
  listPersonalTokens,
  organizationsOf,
  pendingFactor,
  restartSessions,
  revokeOrganizationToken,
  revokePersonalToken,
  sessionLife,
  setCookie,
  signOutEverywhere,
  withdrawApp,
} from '../../modules/identity/index.ts'
import { permits } from '../../modules/organizations/index.ts'
import { seconds } from '../../platform/clock.ts'
import type { PageDeps } from './deps.ts'

type Tokens = Extract<View, { kind: 'tokens' }>
type Draft = Tokens['draft']

const emptyDraft: Draft = { comment: '', preset: 'read_orders', scopes: [], days: '90' }
const first100 = { page: 1, limit: 100, sorting: ['-created_at'] }
const absent: PageAnswer = { status: 404, view: { kind: 'problem', status: 404, error: 'not_found', description: '', request_id: null } }

/** Returns the scopes of a preset, or the selected ones. */
const scopesOf = ({ preset, scopes }: Draft): Scope[] => {
  return preset in tokenPresets ? [...tokenPresets[preset as keyof typeof tokenPresets]] : [...scopes]
}

const readDraft = (form: URLSearchParams): Draft => ({
  comment: (form.get('comment') ?? '').trim(),
  preset: form.get('preset') ?? 'custom',
  scopes: form.getAll('scopes').filter(isScope),
  days: form.get('days') ?? '90',
})

export const accountPages = ({ platform, postgres }: PageDeps): Page[] => {
  const { db } = postgres
  const signedIn = ({ actor }: PageCall) => actor as UserActor

  const isFresh = (actor: UserActor) => platform.clock.wall().getTime() - actor.credential_created_at.getTime() <= freshFor

  /** Checks that the user may create a token: the sign-in is at most an hour old, and an operator has used a second factor. */
  const mayMake = (actor: UserActor): Mishap | null => {
    if (!actor.scopes.has('user:write')) return 'not_allowed'
    return isFresh(actor) ? null : 'session_old'
  }
  const wrong = (actor: UserActor, draft: Draft, form: URLSearchParams): Mishap | null => {
    if (draft.comment === '' || draft.comment.length > 256 || /\p{Cc}/u.test(draft.comment)) return 'name_missing'
    if (scopesOf(draft).length === 0) return 'scopes_missing'
    if (!(draft.days === 'forever' || tokenDays.map(String).includes(draft.days)) || (draft.days === 'forever' && !form.has('forever')))
      return 'forever_unconfirmed'
    return mayMake(actor)
  }

  /** Returns the organizations whose tokens this user may create. */
  const manageable = async (actor: UserActor) => {
    const scope = scopeOf(actor)
    return organizationsOf(
      db,
      [...actor.memberships.keys()].filter((id) => permits(scope, id, 'organization:manage')),
    )
  }
  const showTokens = async (
    actor: UserActor,
    organization_id: string | null,
    more: Partial<Pick<Tokens, 'made' | 'revoked' | 'draft' | 'mishap'>> = {},
  ): Promise<PageAnswer> => {
    const organizations = await manageable(actor)
    const chosen = organization_id === null ? null : organizations.find(({ id }) => id === organization_id)
    if (chosen === undefined || (chosen !== null && !actor.scopes.has('organization_access_tokens:read'))) return absent
    const scope = scopeOf(actor, organization_id ?? undefined)
    const { items } = chosen === null ? await listPersonalTokens(db, actor.user_id, first100) : await listOrganizationTokens(db, scope, first100)
    return {
      ...(more.mishap ? { status: 400 } : {}),
      view: {
        kind: 'tokens',
        owner: chosen === null ? { kind: 'personal' } : { kind: 'organization', id: chosen.id, name: chosen.name, slug: chosen.slug },
        organizations: organizations.map(({ id, name }) => ({ id, name })),
        tokens: items,
        made: more.made ?? null,
        revoked: more.revoked ?? false,
        draft: more.draft ?? emptyDraft,
        mishap: more.mishap ?? null,
      },
    }
  }
  const changeTokens = async (call: PageCall, organization_id: string | null): Promise<PageAnswer> => {
    const { form } = call
    const actor = signedIn(call)
    if (organization_id !== null && !permits(scopeOf(actor), organization_id, 'organization:manage')) return absent
    const token_id = form.get('revoke')
    if (token_id !== null) {
      if (!actor.scopes.has('user:write')) return showTokens(actor, organization_id, { mishap: 'not_allowed' })
      await call.transact(async (tx) =>
        organization_id === null
          ? revokePersonalToken(tx, await findPersonalToken(tx, actor, token_id))
          : revokeOrganizationToken(tx, await findOrganizationToken(tx, scopeOf(actor, organization_id), token_id)),
      )
      return showTokens(actor, organization_id, { revoked: true })
    }
    const draft = readDraft(form)
    const mishap = wrong(actor, draft, form)
    if (mishap) return showTokens(actor, organization_id, { draft, mishap })
    const wish = { comment: draft.comment, scopes: scopesOf(draft), expires_in: draft.days === 'forever' ? null : Number(draft.days) * 24 * 3600 }
    const { secret } = await call.transact<{ secret: { reveal(): string } }>((tx) =>
      organization_id === null ? issuePersonalToken(tx, platform, actor.user_id, wish) : issueOrganizationToken(tx, platform, organization_id, wish),
    )
    return showTokens(actor, organization_id, { made: { comment: draft.comment, token: secret.reveal() } })
  }

  const showApps = async (actor: UserActor, withdrawn: string | null): Promise<PageAnswer> => {
    const { items } = await listGrantsOf(db, actor.user_id, { ...first100, client_id: [] })
    const names = new Map((await organizationsOf(db, [...actor.memberships.keys()])).map(({ id, name }) => [id, name]))
    return {
      view: {
        kind: 'apps',
        withdrawn,
        apps: items.map((grant) => ({
          client_id: grant.client_id,
          name: grant.client_name,
          verified: grant.verified_at !== null,
          scopes: grant.scopes,
          organizations: grant.organizations?.flatMap((id) => names.get(id) ?? []) ?? null,
          created_at: grant.created_at,
          last_authorized_at: grant.last_authorized_at,
        })),
      },
    }
  }

  const showSecurity = async (actor: UserActor, more: { recovery_codes?: string[]; mishap?: Mishap } = {}): Promise<PageAnswer> => {
    const { state, recovery_left } = await factorOf(db, platform, actor)
    return {
      ...(more.mishap ? { status: 400 } : {}),
      view: {
        kind: 'security',
        state,
        required: actor.is_operator,
        setup: await pendingFactor(db, platform, actor),
        recovery_codes: more.recovery_codes ?? null,
        recovery_left,
        sessions: await countSessions(db, actor.user_id, platform.clock.wall()),
        mishap: more.mishap ?? null,
      },
      // The button that copies the codes is the only script of the account pages.
      ...(more.recovery_codes ? { script: true } : {}),
    }
  }

  return [
    // Redirects the root URL to the first settings page.
    { method: 'GET', path: '/', signedIn: false, handle: async () => ({ redirect: '/settings/apps' }) },
    { method: 'GET', path: '/settings/apps', signedIn: true, handle: async (call) => showApps(signedIn(call), null) },
    {
      method: 'POST',
      path: '/settings/apps',
      signedIn: true,
      handle: async (call) => {
        const client_id = call.form.get('client_id') ?? ''
        const actor = signedIn(call)
        const { items } = await listGrantsOf(db, actor.user_id, { ...first100, client_id: [client_id] })
        await call.transact((tx) => withdrawApp(tx, actor.user_id, client_id))
        return showApps(actor, items[0]?.client_name ?? null)
      },
    },
    { method: 'GET', path: '/settings/tokens', signedIn: true, handle: async (call) => showTokens(signedIn(call), null) },
    { method: 'POST', path: '/settings/tokens', signedIn: true, handle: async (call) => changeTokens(call, null) },
    { method: 'GET', path: '/settings/organizations/:id/tokens', signedIn: true, handle: async (call) => showTokens(signedIn(call), call.params.id!) },
    { method: 'POST', path: '/settings/organizations/:id/tokens', signedIn: true, handle: async (call) => changeTokens(call, call.params.id!) },
    { method: 'GET', path: '/settings/security', signedIn: true, handle: async (call) => showSecurity(signedIn(call)) },
    {
      method: 'POST',
      path: '/settings/security',
      signedIn: true,
      budget: 'sign_in',
      handle: async (call) => {
        const actor = signedIn(call)
        const code = call.form.get('code') ?? ''
        switch (call.form.get('action')) {
          case 'begin':
            if (!isFresh(actor)) return showSecurity(actor, { mishap: 'session_old' })
            await call.transact((tx) => beginFactor(tx, platform, actor))
            return showSecurity(actor)
          case 'confirm': {
            if (!isFresh(actor)) return showSecurity(actor, { mishap: 'session_old' })
            const done = await call.transact(async (tx) => {
              const recovery_codes = await confirmFactor(tx, platform, actor, code)
              if (!recovery_codes) return undefined
              return { recovery_codes, session: await restartSessions(tx, platform, actor.user_id) }
            })
            if (!done) return showSecurity(actor, { mishap: 'factor_wrong' })
            const cookie = setCookie(platform.config, cookieName(platform.config), done.session.reveal(), sessionLife / seconds)
            return { ...(await showSecurity(actor, { recovery_codes: done.recovery_codes })), cookies: [cookie] }
          }
          case 'sign-out-everywhere':
            await call.transact((tx) => signOutEverywhere(tx, actor.user_id))
            return { redirect: '/login?return_to=%2Fsettings%2Fsecurity', cookies: [setCookie(platform.config, cookieName(platform.config), '', 0)] }
          default:
            return (await call.transact((tx) => endFactor(tx, platform, actor.user_id, code)))
              ? showSecurity(actor)
              : showSecurity(actor, { mishap: 'factor_wrong' })
        }
      },
    },
  ]
}
