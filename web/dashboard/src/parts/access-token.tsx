import { createOrganizationToken, TokenScope } from '@bursar/contract'
import { useState } from 'react'
import { newKey, useChange } from '../app/api.ts'
import { island } from '../app/island.ts'
import { t } from '../app/texts.ts'
import { Code } from '../kit/bits.tsx'
import { Dialog } from '../kit/dialog.tsx'
import { complaintsOf, Field, Form, textOf } from '../kit/form.tsx'

type Scope = (typeof TokenScope.options)[number]
/** The scopes of a token that may do everything, or only read. */
const scopesOf = (kind: string | null): Scope[] => (kind === 'read' ? TokenScope.options.filter((scope) => scope.endsWith(':read')) : [...TokenScope.options])

/** Creates an access token. It is shown once. */
const Token = ({ onClose }: { onClose: () => void }) => {
  const [key] = useState(newKey)
  const s = t.home.token
  const create = useChange(createOrganizationToken, ['organization_access_tokens'])
  const complaints = complaintsOf(create.error)
  if (create.data)
    return (
      <Dialog title={s.title} onClose={onClose}>
        <p>{s.once}</p>
        <Code text={create.data.token} label={s.title} />
        <Code
          text={`export BURSAR_TOKEN=${create.data.token}\ncurl '${island.origin}/v1/products/' -H "Authorization: Bearer $BURSAR_TOKEN"`}
          label={s.first}
        />
        <div className="actions">
          <button type="button" className="primary" onClick={onClose}>
            {t.close}
          </button>
        </div>
      </Dialog>
    )
  return (
    <Dialog title={s.create} onClose={onClose}>
      <Form
        label={s.create}
        send={s.create}
        onCancel={onClose}
        busy={create.isPending}
        error={create.error}
        fields={['comment', 'expires_in']}
        onSend={(data) =>
          create.mutate({
            body: {
              organization_id: island.organization.id,
              comment: textOf(data, 'comment') ?? '',
              scopes: scopesOf(textOf(data, 'kind')),
              expires_in: textOf(data, 'expires_in'),
            },
            headers: { 'idempotency-key': key },
          })
        }
      >
        <Field name="comment" label={s.comment} required autoFocus placeholder={s.example} complaint={complaints.comment} />
        <Field name="kind" label={s.kind} required value="read" choices={Object.entries(s.kinds)} />
        <Field name="expires_in" label={s.expires} hint={s.expiresAbout} required={false} value="P365D" choices={Object.entries(s.lives)} />
      </Form>
    </Dialog>
  )
}
export default Token
