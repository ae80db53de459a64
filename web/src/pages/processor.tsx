import type { Frame } from '@bursar/contract'
import { speak } from '../kit.tsx'

interface Props {
  readonly frame: Frame
  readonly form: { readonly key: string; readonly currency: string; readonly amount?: number; readonly reusable: boolean }
  readonly error?: string | undefined
}

/** Where the processor's own form is put: what is entered goes to them, and a token comes with our form. */
export const ProcessorForm = ({ frame, form, error }: Props) => {
  const { t } = speak(frame)
  return (
    <div id="confirmation_token_id" tabIndex={-1}>
      <input type="hidden" name="confirmation_token_id" />
      <div
        id="processor-form"
        data-key={form.key}
        data-mode={form.amount === undefined ? 'setup' : 'payment'}
        data-amount={form.amount ?? 0}
        data-currency={form.currency}
        data-reusable={form.reusable}
        data-locale={frame.locale}
        data-failed={t.checkout.notLoaded}
      >
        <p className="soft">{t.checkout.loading}</p>
      </div>
      <p id="processor-error" className="error" role="alert">
        {error}
      </p>
      <noscript>
        <p className="notice warn">{t.checkout.needsScript}</p>
      </noscript>
    </div>
  )
}
