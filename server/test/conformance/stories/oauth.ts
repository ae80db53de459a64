import assert from 'node:assert/strict'
import { openApp, openPerson } from '../../harness/visitor.ts'
import { noteSecrets } from '../../harness/secrets.ts'
import type { Story } from '../run.ts'

interface Registered {
  client_id: string
  client_secret: string
  registration_access_token: string
  client_name: string
}

/** Registers a client, obtains a person's consent and uses the tokens. */
export const oauth: Story = async ({ world, clients, address }) => {
  const nobody = clients.current('undefined')
  const wish = { client_name: 'Current', redirect_uris: ['https://app.example/callback'] }
  const made = (await nobody.oauth2.clients.oauth2.createClient(wish)) as Registered
  noteSecrets(JSON.stringify(made))
  const owner = clients.current(made.registration_access_token)
  assert.equal(((await owner.oauth2.clients.oauth2.getClient(made.client_id)) as Registered).client_name, 'Current')
  const renamed = await owner.oauth2.clients.oauth2.updateClient(made.client_id, { ...wish, client_id: made.client_id, client_name: 'Renamed' })
  assert.equal((renamed as Registered).client_name, 'Renamed')
  const strictly = clients.strict(made.registration_access_token)
  assert.equal(((await strictly.oauth2.clients.get({ clientId: made.client_id })) as Registered).client_name, 'Renamed')
  await strictly.oauth2.clients.update({
    clientId: made.client_id,
    oAuth2ClientConfigurationUpdate: { redirectUris: wish.redirect_uris, clientName: 'Renamed again', clientId: made.client_id },
  })
  await owner.oauth2.clients.oauth2.deleteClient(made.client_id)
  await assert.rejects(owner.oauth2.clients.oauth2.getClient(made.client_id))

  const { visitor, cookie, person, here } = await openPerson(world)
  const app = await openApp(world)
  const asked = new URLSearchParams(app.ask())
  const described = (await (await fetch(`${address}/v1/oauth2/authorize?${asked.toString()}`, { headers: { cookie } })).json()) as {
    organizations: { id: string }[]
  }
  assert.ok(described.organizations.some(({ id }) => id === here.id))

  // The older client has its own method for token requests.
  const older = clients.strict('')
  const credentials = { clientId: app.client_id, clientSecret: app.client_secret! }
  const code = await app.code(visitor, {}, { organizations: [here.id] })
  const tokens = await older.oauth2.token({ grantType: 'authorization_code', ...credentials, code, redirectUri: app.redirect_uris[0]! })
  noteSecrets(JSON.stringify(tokens))
  assert.equal(tokens.expiresIn, 864_000)
  const next = await older.oauth2.token({ grantType: 'refresh_token', ...credentials, refreshToken: tokens.refreshToken! })
  noteSecrets(JSON.stringify(next))
  const seen = await older.oauth2.introspect({ ...credentials, token: next.accessToken })
  assert.deepEqual([seen.active, seen.tokenType], [true, 'access_token'])
  // The older client does not know the field `organizations`, so it is read by plain HTTP.
  assert.deepEqual((await app.introspect(next.accessToken)).body.organizations, [here.id])

  // Both clients call the API with the access token, on behalf of the person.
  assert.equal((await clients.current(next.accessToken).oauth2.userinfo()).sub, person.id)
  assert.equal((await clients.strict(next.accessToken).oauth2.userinfo()).sub, person.id)
  const mine = await clients.current(next.accessToken).organizations.list({})
  assert.deepEqual(
    mine.items.map(({ id }) => id),
    [here.id],
  )
  await older.oauth2.revoke({ ...credentials, token: next.accessToken })
  await assert.rejects(clients.current(next.accessToken).organizations.list({}))
}
