import { isScope } from '@bursar/contract'
import type { Mishap } from '@bursar/views'
import type { UserActor } from '../../kernel/actors.ts'
import type { Page, PageAnswer, PageCall } from '../../modules/handlers.ts'
import { allowApp, findClient, findGrant, organizationsOf, type Interaction } from '../../modules/identity/index.ts'
import { enqueue } from '../../platform/jobs/enqueue.sql.ts'
import { placeOf, type PageDeps } from './deps.ts'

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '')

const expired: PageAnswer = { status: 400, view: { kind: 'problem', status: 400, error: 'request_expired', description: '', request_id: null } }

export const consentPages = ({ oauth, postgres }: PageDeps): Page[] => {
  const { db } = postgres

  /** Returns the pending OAuth interaction of this browser, or an error page. */
  const open = async (call: PageCall): Promise<Interaction | PageAnswer> => {
    const interaction = await oauth.interaction(call.request, call.response)
    if (!interaction || interaction.uid !== call.params.uid) return expired
    return interaction
  }

  /** Sends the user to sign in if the request needs it. If the request needs a fresh sign-in, an existing session is not enough. */
  const login = async (call: PageCall, interaction: Interaction): Promise<PageAnswer> => {
    const { actor, request, response } = call
    const back = `return_to=${encodeURIComponent(`/oauth2/interaction/${interaction.uid}`)}`
    const hint = typeof interaction.params.login_hint === 'string' ? `&login_hint=${encodeURIComponent(interaction.params.login_hint)}` : ''
    if (actor.kind === 'anonymous') return { redirect: `/login?${back}${hint}` }
    // An operator without a second factor is redirected to the page that sets it up, and cannot authorize an app before.
    if (!actor.scopes.has('user:write')) return { redirect: '/settings/security' }
    const anew = interaction.prompt.reasons.some((reason) => reason !== 'no_session')
    const since = Math.floor(actor.credential_created_at.getTime() / 1000)
    if (anew && since < interaction.iat) return { redirect: `/login?again=1&${back}${hint}` }
    return { redirect: await oauth.decide(request, response, { login: { accountId: actor.user_id, ts: since } }) }
  }

  const restart = ({ params }: Interaction): PageAnswer => ({
    redirect: `/oauth2/authorize?${new URLSearchParams(Object.entries(params).filter((pair): pair is [string, string] => typeof pair[1] === 'string')).toString()}`,
  })

  const show = async (interaction: Interaction, actor: UserActor, mishap: Mishap | null): Promise<PageAnswer> => {
    const asked = await readAsked(interaction, actor)
    if (!asked) return expired
    const { client, grant, scopes, redirect_uri, single } = asked
    const organizations = await organizationsOf(db, [...actor.memberships.keys()])
    const before = grant?.organizations
    return {
      ...(mishap ? { status: 400 } : {}),
      leadsTo: [placeOf(redirect_uri)],
      locales: textOf(interaction.params.ui_locales),
      view: {
        kind: 'consent',
        action: `/oauth2/interaction/${interaction.uid}`,
        client: {
          name: client.client_name,
          host: new URL(redirect_uri).host || placeOf(redirect_uri),
          verified: client.verified_at !== null,
          since: client.created_at,
          client_uri: client.client_uri,
          tos_uri: client.tos_uri,
          policy_uri: client.policy_uri,
        },
        // Lists all scopes, including those granted before, because the choice of organizations applies to all of them.
        scopes: [...new Set([...(grant?.scopes ?? []), ...scopes])].map((scope) => ({ scope, fresh: grant !== undefined && !grant.scopes.includes(scope) })),
        // Preselects the user's earlier choice of organizations. Without one, preselects the first organization only, so that
        // no app reaches all of them by a mere click.
        organizations: organizations.map(({ id, name, slug }, at) => ({ id, name, slug, chosen: before ? before.includes(id) : at === 0 })),
        everywhere: !single && (organizations.length === 0 || (before === null && mishap === null)),
        single,
        again: grant !== undefined,
        mishap,
      },
    }
  }

  const readAsked = async ({ params }: Interaction, actor: UserActor) => {
    const client = await findClient(db, textOf(params.client_id))
    if (!client) return undefined
    const scopes = textOf(params.scope).split(' ').filter(isScope)
    const single = (params.sub_type ?? client.default_sub_type) === 'organization'
    return { client, scopes, single, redirect_uri: textOf(params.redirect_uri), grant: await findGrant(db, client.client_id, actor.user_id) }
  }

  /** Reads the selected organizations from the form. Null means every organization; a string is the error to show. */
  const readChoice = (form: URLSearchParams, actor: UserActor, single: boolean): string[] | null | Mishap => {
    if (!single && form.get('reach') === 'all') return null
    const chosen = [...new Set(form.getAll('organizations'))]
    if (chosen.length === 0) return 'organization_missing'
    if (chosen.some((id) => !actor.memberships.has(id))) return 'organization_missing'
    return single && chosen.length > 1 ? 'organization_single' : chosen
  }

  return [
    {
      method: 'GET',
      path: '/oauth2/interaction/:uid',
      signedIn: false,
      handle: async (call) => {
        const interaction = await open(call)
        if (!('prompt' in interaction)) return interaction
        if (interaction.prompt.name === 'login') return login(call, interaction)
        const { actor } = call
        if (actor.kind === 'anonymous' || actor.user_id !== interaction.session?.accountId) return restart(interaction)
        return show(interaction, actor, null)
      },
    },
    {
      method: 'POST',
      path: '/oauth2/interaction/:uid',
      signedIn: false,
      handle: async (call) => {
        const { actor, form, request, response } = call
        const interaction = await open(call)
        if (!('prompt' in interaction)) return interaction
        if (interaction.prompt.name !== 'consent' || actor.kind === 'anonymous' || actor.user_id !== interaction.session?.accountId) return restart(interaction)
        if (form.get('action') !== 'allow')
          return { redirect: await oauth.decide(request, response, { error: 'access_denied', error_description: 'the person denied the request' }) }
        const asked = await readAsked(interaction, actor)
        if (!asked) return expired
        const organizations = readChoice(form, actor, asked.single)
        if (typeof organizations === 'string') return show(interaction, actor, organizations)
        await call.transact(async (tx) => {
          await allowApp(tx, { client_id: asked.client.client_id, user_id: actor.user_id, scopes: asked.scopes, organizations })
          await enqueue(tx, 'mail.app_allowed', { user_id: actor.user_id, client_id: asked.client.id })
        })
        const grantId = await oauth.openFamily(asked.client.client_id, actor.user_id, asked.scopes)
        return { redirect: await oauth.decide(request, response, { consent: { grantId } }) }
      },
    },
  ]
}
