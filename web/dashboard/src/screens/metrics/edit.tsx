import { createMetricDashboard, updateMetricDashboard, type MetricSlug } from '@bursar/contract'
import descriptor from 'form:MetricDashboardCreate'
import { useState } from 'react'
import { newKey, useChange } from '../../app/api.ts'
import { useSetSearch } from '../../app/search.ts'
import { t } from '../../app/texts.ts'
import { Dialog } from '../../kit/dialog.tsx'
import { complaintsOf, Field, Form, textOf } from '../../kit/form.tsx'
import { toast } from '../../kit/toast.tsx'
import { everySlug, isSlug, type Board } from './view.ts'

/** The most metrics of one dashboard. */
const most = 10

/** Creates a dashboard, or changes one: its name, and its metrics in the order in which they are chosen. */
const Edit = ({ board, usual, onClose }: { board?: Board; usual: readonly MetricSlug[]; onClose: () => void }) => {
  const [key] = useState(newKey)
  const [chosen, setChosen] = useState<readonly MetricSlug[]>(board ? board.metrics.filter(isSlug) : usual.slice(0, 4))
  const setSearch = useSetSearch()
  const create = useChange(createMetricDashboard, ['metrics'])
  const update = useChange(updateMetricDashboard, ['metrics'])
  const act = board ? update : create
  const done = (id: string) => {
    toast(t.metrics.saved)
    setSearch({ dashboard: id, table: undefined })
    onClose()
  }
  const send = (data: FormData) => {
    const body = { name: textOf(data, 'name') ?? '', metrics: [...chosen] }
    if (board) update.mutate({ params: { id: board.id }, body }, { onSuccess: ({ id }) => done(id) })
    else create.mutate({ body, headers: { 'idempotency-key': key } }, { onSuccess: ({ id }) => done(id) })
  }
  const title = board ? t.metrics.change : t.metrics.create
  return (
    <Dialog title={title} onClose={onClose} kind="wide">
      <Form label={title} send={title} onSend={send} onCancel={onClose} busy={act.isPending} error={act.error} fields={['name']}>
        <Field name="name" label={t.metrics.name} facts={descriptor.name} value={board?.name} complaint={complaintsOf(act.error).name} autoFocus />
        <fieldset className="grid">
          <legend>{t.metrics.chosen(chosen.length, most)}</legend>
          {everySlug.map((slug) => {
            const at = chosen.indexOf(slug)
            return (
              <label key={slug} className="choice">
                <input
                  type="checkbox"
                  checked={at >= 0}
                  disabled={at < 0 && chosen.length >= most}
                  onChange={({ target }) => setChosen(target.checked ? [...chosen, slug] : chosen.filter((one) => one !== slug))}
                />
                <span>
                  {at >= 0 && `${at + 1}. `}
                  {t.metrics.of[slug].display_name}
                </span>
              </label>
            )
          })}
        </fieldset>
      </Form>
    </Dialog>
  )
}
export default Edit
