import { updateCustomer, type getCustomer } from '@bursar/contract'
import type { Received } from '@bursar/contract/kit'
import { useChange } from '../../app/api.ts'
import { may } from '../../app/island.ts'
import { t } from '../../app/texts.ts'
import { complaintsOf, Field, Form, textOf } from '../../kit/form.tsx'
import { Facts, Panel } from '../../kit/layout.tsx'
import { toast } from '../../kit/toast.tsx'

/** The key of the metadata that contains the note. */
const key = 'note'
/** The longest text that a value of the metadata may have. */
const longest = 500

/** A note about a customer, and the other metadata. The note is metadata too, so that the API reads and writes it. */
export const Notes = ({ customer: { id, metadata } }: { customer: Received<typeof getCustomer> }) => {
  const update = useChange(updateCustomer, ['customers'])
  const n = t.customers.notes
  const { [key]: note, ...others } = metadata
  const save = (text: string | null, done: string, undo?: () => void) =>
    update.mutate({ params: { id }, body: { metadata: { ...others, ...(text === null ? {} : { [key]: text }) } } }, { onSuccess: () => toast(done, undo) })
  const before = note === undefined ? null : String(note)
  return (
    <Panel title={n.title}>
      {may('customers:manage') ? (
        <Form
          key={before}
          label={n.title}
          send={n.save}
          busy={update.isPending}
          error={update.error}
          fields={['note']}
          onSend={(data) => save(textOf(data, 'note'), n.saved, () => save(before, n.restored))}
        >
          <Field
            name="note"
            label={n.note}
            hint={n.hint}
            multiline
            facts={{ type: 'string', maxLength: longest, required: false }}
            value={before ?? ''}
            complaint={complaintsOf(update.error)[`metadata.${key}`]}
          />
        </Form>
      ) : (
        <p className={before === null ? 'soft' : undefined}>{before ?? n.none}</p>
      )}
      {Object.keys(others).length > 0 && (
        <>
          <h3>{n.metadata}</h3>
          <Facts list={Object.entries(others).map(([name, value]) => [name, String(value)] as const)} />
        </>
      )}
    </Panel>
  )
}
