import { renewSession, requestRenewalCode } from '@bursar/contract'
import { useMutation } from '@tanstack/react-query'
import { useEffect } from 'react'
import { api, endConfirming, reasonOf } from '../app/api.ts'
import { island } from '../app/island.ts'
import { t } from '../app/texts.ts'
import { Dialog } from '../kit/dialog.tsx'
import { Field, Form, textOf } from '../kit/form.tsx'

/** Asks for a code from a mail, because the sign-in is too old for the refused request. The request is then sent again. */
const Confirming = () => {
  const ask = useMutation({ mutationFn: () => api.call(requestRenewalCode, {}) })
  const renew = useMutation({
    mutationFn: (body: { code: string; second_factor: string | null }) => api.call(renewSession, { body }),
    onSuccess: () => endConfirming(true),
  })
  const { mutate: send } = ask
  useEffect(() => send(), [send])
  const name = renew.error === null ? '' : reasonOf(renew.error).name
  const isRefused = name === 'SignInRefused'
  return (
    <Dialog title={t.stale.title} onClose={() => endConfirming(false)}>
      <p>{t.stale.text(island.person.email)}</p>
      <Form
        label={t.stale.title}
        send={t.stale.confirm}
        onSend={(data) => renew.mutate({ code: textOf(data, 'code') ?? '', second_factor: textOf(data, 'second_factor') })}
        onCancel={() => endConfirming(false)}
        busy={renew.isPending}
        error={isRefused || name === 'SecondFactorRequired' ? ask.error : (renew.error ?? ask.error)}
        fields={['code', 'second_factor']}
      >
        <Field name="code" label={t.stale.code} required autoFocus complaint={isRefused ? t.stale.wrong : undefined} />
        {(name === 'SecondFactorRequired' || renew.variables?.second_factor) && <Field name="second_factor" label={t.stale.factor} required autoFocus />}
        <button type="button" className="quiet" aria-busy={ask.isPending} onClick={() => send()}>
          {t.stale.again}
        </button>
      </Form>
    </Dialog>
  )
}
export default Confirming
