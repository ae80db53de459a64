import { copyFileSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const source = join(import.meta.dirname, '../src')
const target = join(import.meta.dirname, '../dist/assets')

/** The parts of the stylesheet in cascade order. Of two rules with the same specificity, the later one applies. */
const styles = [
  'kit/fonts.css',
  'kit/tokens.css',
  'kit/base.css',
  'kit/parts.css',
  'kit/form.css',
  'kit/table.css',
  'kit/address/address.css',
  'kit/inviting/inviting.css',
  'kit/problem/problem.css',
  'account/shared.css',
  'account/docs/docs.css',
  'account/consent/consent.css',
  'account/tokens/tokens.css',
  'account/mailbox/mailbox.css',
  'checkout/shared.css',
  'checkout/checkout/checkout.css',
  'checkout/purchase/purchase.css',
  'checkout/claim/claim.css',
  'portal/shared.css',
  'portal/own/own.css',
  'portal/entry/entry.css',
  'portal/overview/overview.css',
  'portal/billing/billing.css',
  'portal/team/team.css',
  'portal/subscriptions/subscriptions.css',
  'portal/orders/orders.css',
  'portal/usage/usage.css',
  'kit/overrides.css',
  'kit/print.css',
]

const found = globSync('**/*.css', { cwd: source })
const unlisted = found.filter((file) => !styles.includes(file))
if (unlisted.length > 0) throw new Error(`web/scripts/assets.ts does not list ${unlisted.join(', ')}. Add each file where its rules belong in the cascade.`)

mkdirSync(target, { recursive: true })
writeFileSync(join(target, 'app.css'), styles.map((file) => readFileSync(join(source, file), 'utf8')).join('\n'))
// The licence of the font requires its text beside the files.
const geist = join(import.meta.dirname, '../node_modules/@fontsource-variable/geist')
for (const slice of ['latin', 'latin-ext']) copyFileSync(join(geist, `files/geist-${slice}-wght-normal.woff2`), join(target, `geist-${slice}.woff2`))
copyFileSync(join(geist, 'LICENSE'), join(target, 'geist-LICENSE.txt'))
copyFileSync(join(source, 'kit/app.js'), join(target, 'app.js'))
copyFileSync(join(source, 'kit/processor/stripe.js'), join(target, 'stripe.js'))
