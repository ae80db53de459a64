import type { Frame } from '@bursar/views'
import { textsIn } from '../index.ts'
import { processorTexts } from './texts.ts'

interface Props {
  readonly frame: Frame
  readonly form: { readonly key: string; readonly currency: string; readonly amount?: number; readonly reusable: boolean }
  readonly error?: string | undefined
}

/** The container of the payment processor's form. Card data goes to the processor, and our form submits a token. */
export const ProcessorForm = ({ frame, form, error }: Props) => {
  const words = textsIn(frame, processorTexts)
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
