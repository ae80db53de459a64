import { getWebhookEndpoint, listWebhookEndpoints } from '@bursar/contract'
import { expect } from 'vitest'
import { expectScreen } from '../../harness/dashboards.ts'
import { enter, heading, jump, press, tabTo, toggle } from '../../harness/keyboard.ts'
import { eventually } from '../../harness/world.ts'
import type { Task, TaskContext } from './tasks.ts'

const endpoint = async ({ seller }: TaskContext, name: string) => {
  const { items } = await seller.api.call(listWebhookEndpoints, { query: {} })
  return items.find((one) => one.name === name)!
}

export const webhookTasks: readonly Task[] = [
  {
    name: 'creates an endpoint and reads its secret',
    run: async (task) => {
      const { page, go, sink } = task
      await go()
      await heading(page, 'Home')
      await jump(page, 'w', 'Webhooks')
      await press(page, 'New endpoint')
      await page.getByRole('dialog', { name: 'New endpoint' }).waitFor()
      await expectScreen(page, 'endpoint-new')
      await enter(page, /^Address/, sink.url('/second'))
      await enter(page, /^Name/, 'Second')
      await press(page, 'All events')
      await page.keyboard.press('Control+Enter')
      const dialog = page.getByRole('dialog', { name: 'Secret of the endpoint' })
      await dialog.getByText(/^whsec_/).waitFor()
      await expectScreen(page, 'endpoint-secret')
      await press(page, 'Close')
      await heading(page, 'Second')
      expect((await endpoint(task, 'Second')).url).toBe(sink.url('/second'))
    },
  },
  {
    name: 'sends a test to an endpoint, and sees the answer',
    run: async (task) => {
      const { page, go, sink } = task
      const before = (await sink.until('/hooks', 1)).length
      await go(`/webhooks/${(await endpoint(task, 'Shop')).id}`)
      await press(page, 'Send a test')
      await press(page, 'Send it now')
      const dialog = page.getByRole('dialog', { name: 'Send a test' })
      await dialog.getByText('Your server has accepted the event.').waitFor()
      await expectScreen(page, 'trial')
      await sink.until('/hooks', before + 1)
      await page.keyboard.press('Escape')
      await dialog.waitFor({ state: 'detached' })
    },
  },
  {
    name: 'sends the failed events of an endpoint again after it was repaired, and counts them before',
    run: async (task) => {
      const { page, go, sink } = task
      const { id } = await endpoint(task, 'Broken')
      await sink.until('/broken', 1)
      // As after three days of failed attempts.
      await task.world.database.owner((owner) =>
        owner.query(`update webhook_deliveries set status = 'parked', due_at = null where endpoint_id = $1 and status = 'waiting'`, [id]),
      )
      sink.answer('/broken', 204)
      await go(`/webhooks/${id}`)
      await press(page, 'Send again since …')
      const send = page.getByRole('button', { name: /^Send [1-9]\d* events? again$/ })
      await send.waitFor()
      await expectScreen(page, 'replay')
      await press(page, /^Send [1-9]\d* events? again$/)
      await page.getByText(/handed to delivery/).waitFor()
      await press(page, 'Close')
      await eventually('the endpoint is well again', async () => (await task.seller.api.call(getWebhookEndpoint, { params: { id } })).failing_since === null)
      await page.locator('tbody').getByText('Delivered').first().waitFor()
    },
  },
  {
    name: 'sends delivered events again when asked to',
    run: async (task) => {
      const { page, go, sink } = task
      const before = (await sink.until('/hooks', 3)).length
      await go(`/webhooks/${(await endpoint(task, 'Shop')).id}`)
      await press(page, 'Send again since …')
      await toggle(page, 'Also events that were delivered')
      const send = page.getByRole('button', { name: /^Send [1-9]\d* events again$/ })
      await send.waitFor()
      await press(page, /^Send [1-9]\d* events again$/)
      await page.getByText(/events were handed to delivery/).waitFor()
      await sink.until('/hooks', before + 1)
    },
  },
  {
    name: 'opens an event from its endpoint and sends it again',
    run: async (task) => {
      const { page, go, sink } = task
      const before = (await sink.until('/hooks', 3)).length
      await go(`/webhooks/${(await endpoint(task, 'Shop')).id}`)
      await page.locator('tbody tr').first().waitFor()
      await press(page, /^[a-z_]+\.[a-z_]+$/)
      await heading(page, /^Event /)
      await press(page, 'Send again')
      await page.getByText('The event will be sent again.').waitFor()
      await sink.until('/hooks', before + 1)
    },
  },
  {
    name: 'reads single values of a chart by arrows, and its table',
    run: async ({ page, go }) => {
      await go()
      await tabTo(page, /without tax, .* Total /)
      await page.keyboard.press('ArrowLeft')
      await page.locator('.chart .tip', { hasText: /: \$[1-9]/ }).waitFor()
      await press(page, 'Show as table')
      await page.locator('.chart table').waitFor()
    },
  },
  {
    name: 'rotates the secret of an endpoint',
    run: async (task) => {
      const { page, go } = task
      const { id } = await endpoint(task, 'Second')
      await go(`/webhooks/${id}`)
      await press(page, 'Rotate the secret')
      await page.getByText('events are signed with both').waitFor()
      await expectScreen(page, 'rotate')
      await press(page, 'Rotate the secret')
      const dialog = page.getByRole('dialog', { name: 'Secret of the endpoint' })
      await dialog.getByText(/^whsec_/).waitFor()
      await page.keyboard.press('Escape')
      await page.getByText('The previous secret is valid until').waitFor()
      expect((await task.seller.api.call(getWebhookEndpoint, { params: { id } })).previous_secret_until).not.toBeNull()
    },
  },
  {
    name: 'pauses an endpoint, and takes it back by one key',
    run: async (task) => {
      const { page, go } = task
      const { id } = await endpoint(task, 'Second')
      const isEnabled = async () => (await task.seller.api.call(getWebhookEndpoint, { params: { id } })).enabled
      await go(`/webhooks/${id}`)
      await press(page, 'Pause')
      await page.getByText('The endpoint was paused.').waitFor()
      expect(await isEnabled()).toBe(false)
      await page.keyboard.press('z')
      await eventually('the endpoint is on again', isEnabled)
      await page.getByRole('button', { name: 'Pause' }).waitFor()
    },
  },
  {
    name: 'deletes an endpoint, after the number of undelivered events was shown',
    run: async (task) => {
      const { page, go } = task
      await go(`/webhooks/${(await endpoint(task, 'Second')).id}`)
      await press(page, 'Delete')
      await page.getByText('The endpoint receives no more events.').waitFor()
      await expectScreen(page, 'endpoint-delete')
      await press(page, 'Cancel')
      await page.keyboard.press('Enter')
      await page.getByText('The endpoint receives no more events.').waitFor()
      await press(page, 'Delete')
      await heading(page, 'Webhooks')
      await eventually('the endpoint is gone', async () => (await endpoint(task, 'Second')) === undefined)
    },
  },
]
