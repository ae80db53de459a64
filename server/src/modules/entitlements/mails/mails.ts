import type { MailBenefit } from '@bursar/views'
import { timeOf } from '../../../kernel/ids.ts'
import { later, seconds } from '../../../platform/clock.ts'
import { RunLater } from '../../../platform/jobs/later.ts'
import type { Payload } from '../../../platform/jobs/catalogue.ts'
import { mailReceipt, mailTrialStarted, type FindGiven } from '../../billing/index.ts'
import { loadProducts, presentBenefit } from '../../catalog/index.ts'
import type { Deps } from '../../handlers.ts'
import { portalUrl } from '../../organizations/index.ts'
import { sealedFor } from '../issuing/license-keys.ts'
import { loadGiven } from './given.sql.ts'

/** Benefits that are granted within seconds of a purchase, and that a mail shows. Others may wait for the buyer, such as an invitation. */
const prompt: readonly string[] = ['license_keys', 'downloadables']

/** How long the mail about a purchase waits for its license keys and files. */
const patience = 30 * seconds

/** Finds what a purchase gives. Postpones the job while license keys or files are still being prepared. */
const givenBy =
  ({ db, platform }: Deps): FindGiven =>
  async ({ seller }, container, product_id, since) => {
    const { organization_id } = container
    const [product] = product_id === null ? [] : await loadProducts(db, [{ tenant: organization_id, id: product_id }])
    const shown = product?.benefits.filter(({ visibility }) => visibility === 'public') ?? []
    if (shown.length === 0) return { benefits: [], more_to_come: false }
    const granted = await loadGiven(db, container)
    const missing = shown.some(({ id, type }) => prompt.includes(type) && !granted.some(({ benefit_id }) => benefit_id === id))
    if (missing && later(timeOf(since), patience) > platform.clock.wall()) throw new RunLater('the benefits of this purchase are not granted yet')
    const benefits = shown.map(presentBenefit).map((benefit): MailBenefit => {
      const { id, description } = benefit
      const of = granted.find(({ benefit_id }) => benefit_id === id)
      const keys = of?.keys.map((key) => platform.sealer.open(key.key_sealed, sealedFor({ organization_id, id: key.id })).reveal()) ?? []
      const files = (of?.files ?? []).map(({ id: file, name }) => ({
        name,
        url: portalUrl(platform, seller, `/download?${new URLSearchParams({ id: file, benefit: id }).toString()}`),
      }))
      return { description, note: of && benefit.type === 'custom' ? benefit.properties.note : null, keys, files }
    })
    return { benefits, more_to_come: missing }
  }

/** Mails the receipt of an order, with what it gives. */
export const mailOrder = (deps: Deps, about: Payload<'mail.order_receipt'>): Promise<void> => mailReceipt(deps, about, givenBy(deps))

/** Mails that a trial has started, with what it gives. */
export const mailTrial = (deps: Deps, about: Payload<'mail.trial_started'>): Promise<void> => mailTrialStarted(deps, about, givenBy(deps))
