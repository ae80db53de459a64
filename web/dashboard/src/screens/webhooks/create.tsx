import { createWebhookEndpoint, webhookKinds, type WebhookEventType } from '@bursar/contract'
import descriptor from 'form:WebhookEndpointCreate'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { newKey, useChange } from '../../app/api.ts'
import { t } from '../../app/texts.ts'
import { Code } from '../../kit/bits.tsx'
import { Dialog } from '../../kit/dialog.tsx'
import { complaintsOf, Field, Form, textOf } from '../../kit/form.tsx'

const groups = Map.groupBy(webhookKinds, (kind) => kind.split('.')[0]!)

/** Creates an endpoint. The secret is shown once it exists. */
const Create = ({ onClose }: { onClose: () => void }) => {
  const [key] = useState(newKey)
  const [kinds, setKinds] = useState<readonly WebhookEventType[]>(['order.paid'])
  const navigate = useNavigate()
  const create = useChange(createWebhookEndpoint, ['webhooks'])
  const complaints = complaintsOf(create.error)
  const w = t.webhooks
  if (create.data) {
    const { id, secret } = create.data
    const open = () => void navigate({ to: `/webhooks/${id}` as '/' })
    return (
      <Dialog title={w.secretTitle} onClose={open}>
        <p>{w.secretAbout}</p>
        <Code text={secret} label={w.secretTitle} />
        <div className="actions">
          <button type="button" className="primary" onClick={open}>
            {t.close}
          </button>
        </div>
      </Dialog>
    )
  }
  const send = (data: FormData) =>
    create.mutate({
      body: {
        url: textOf(data, 'url') ?? '',
        name: textOf(data, 'name'),
        format: textOf(data, 'format') as 'raw',
        events: [...kinds],
        strict: data.has('strict'),
      },
      headers: { 'idempotency-key': key },
    })
  return (
    <Dialog title={w.create} onClose={onClose} kind="wide">
      <Form label={w.create} send={w.create} onSend={send} onCancel={onClose} busy={create.isPending} error={create.error} fields={['url', 'name', 'format']}>
        <Field name="url" label={w.fields.url} facts={descriptor.url} type="url" hint={w.hints.url} complaint={complaints.url} autoFocus />
        <div className="pair">
          <Field name="name" label={w.fields.name} facts={descriptor.name} complaint={complaints.name} />
          <Field
            name="format"
            label={w.fields.format}
            facts={descriptor.format}
            choices={Object.entries(w.formats)}
            value="raw"
            complaint={complaints.format}
          />
        </div>
        <fieldset>
          <legend>{w.kinds}</legend>
          <div className="actions">
            <button type="button" onClick={() => setKinds(webhookKinds)}>
              {w.all}
            </button>
            <button type="button" onClick={() => setKinds([])}>
              {w.none}
            </button>
          </div>
          <div className="groups">
            {[...groups].map(([name, list]) => (
              <fieldset key={name}>
                <legend>{name}</legend>
                {list.map((kind) => (
                  <label key={kind} className="choice">
                    <input
                      type="checkbox"
                      checked={kinds.includes(kind)}
                      onChange={({ target }) => setKinds(webhookKinds.filter((one) => (one === kind ? target.checked : kinds.includes(one))))}
                    />
                    {kind.slice(name.length + 1)}
                  </label>
                ))}
              </fieldset>
            ))}
          </div>
        </fieldset>
        <label className="choice">
          <input type="checkbox" name="strict" />
          {w.fields.strict}
        </label>
      </Form>
    </Dialog>
  )
}
export default Create
