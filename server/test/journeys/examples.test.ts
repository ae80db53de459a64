import { spawn, type ChildProcess } from 'node:child_process'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openBrowser, openContext, signInOn, type Browser } from '../harness/browser.ts'
import { openApp } from '../harness/visitor.ts'
import { eventually, openWorld, type World } from '../harness/world.ts'

// The examples do what their README says, against a running system and with a real browser.
let world: World
let browser: Browser
const children: ChildProcess[] = []
beforeAll(async () => {
  ;[world, browser] = await Promise.all([openWorld({ worker: true, browser: true }), openBrowser()])
})
afterAll(async () => {
  for (const child of children) child.kill()
  await browser.close()
  await world.close()
})

const folder = new URL('../../../examples/oauth-app/', import.meta.url).pathname

const run = (script: string, settings: Record<string, string>) => {
  const child = spawn(process.execPath, [script], { cwd: folder, env: { PATH: process.env.PATH, ISSUER: world.config.public_url.origin, ...settings } })
  children.push(child)
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()))
  return (wanted: RegExp) => eventually(`${script} says ${wanted.source}; it said: ${output}`, async () => wanted.exec(output) ?? undefined)
}

const someone = async () => {
  const person = await world.person()
  return { person, chosen: await world.organization({ owner: person.id }), other: await world.organization({ owner: person.id }) }
}

for (const [name, method, port] of [
  ['confidential', 'client_secret_post', '43101'],
  ['public', 'none', '43111'],
] as const)
  test(`the ${name} app signs a person in and sees what they chose`, async () => {
    const { person, chosen, other } = await someone()
    const app = await openApp(world, {
      redirect_uris: [`http://127.0.0.1:${port}/callback`],
      token_endpoint_auth_method: method,
      scope: 'openid email organizations:read',
    })
    const says = run(`${name}.ts`, { CLIENT_ID: app.client_id, PORT: port, ...(app.client_secret === undefined ? {} : { CLIENT_SECRET: app.client_secret }) })
    const [, address] = await says(/open (\S+)/)
    const { context, close } = await openContext(browser, world)
    const page = await context.newPage()
    await page.goto(address!)
    if (name === 'confidential') await page.getByRole('link', { name: 'Sign in with Bursar' }).click()
    await signInOn(page, world, person.email)
    await page.getByRole('button', { name: 'Allow' }).waitFor()
    for (const box of await page.locator('input[name=organizations]:checked').all()) await box.uncheck()
    await page.locator(`input[value="${chosen.id}"]`).check()
    await page.getByRole('button', { name: 'Allow' }).click()
    if (name === 'confidential') {
      await page.getByRole('heading', { name: `Hello ${person.email}` }).waitFor()
      const text = await page.locator('ul').textContent()
      expect(text).toContain(chosen.name)
      expect(text).not.toContain(other.name)
    } else {
      const [line] = await says(/let us see: .*/)
      expect(line).toContain(chosen.name)
      expect(line).not.toContain(other.name)
      await says(/handed the token back/)
    }
    await close()
  })
