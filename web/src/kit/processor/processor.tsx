import type { Frame } from '@bursar/views'
import { textsIn } from '../index.ts'
import { processorTexts } from './texts.ts'

interface Props {
  readonly frame: Frame
  readonly form: { readonly key: string; readonly currency: string; readonly amount?: number; readonly reusable: boolean; readonly methods?: string }
  readonly error?: string | undefined
  /** True if the form gets the focus when the page is shown, for example because of its error. */
  readonly autoFocus?: boolean
}

/** The container of the payment processor's form. Card data goes to the processor, and our form submits a token. */
export const ProcessorForm = ({ frame, form, error, autoFocus = false }: Props) => {
  const words = textsIn(frame, processorTexts)
  return (
    <div id="confirmation_token_id" tabIndex={-1} autoFocus={autoFocus} role="group" aria-describedby="processor-error">
      <input type="hidden" name="confirmation_token_id" />
      <div
        id="processor-form"
        data-key={form.key}
        data-mode={form.amount === undefined ? 'setup' : 'payment'}
        data-amount={form.amount ?? 0}
        data-currency={form.currency}
        data-reusable={form.reusable}
        data-methods={form.methods ?? 'card link sepa_debit'}
        data-locale={frame.locale}
        data-failed={words.notLoaded}
      >
        <p className="soft">{words.loading}</p>
      </div>
      <p id="processor-error" className="error" role="alert">
        {error}
      </p>
      <noscript>
        <p className="notice warn">{words.needsScript}</p>
      </noscript>
    </div>
  )
}
