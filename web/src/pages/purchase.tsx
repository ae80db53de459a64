import type { Frame, StepState, View } from '@bursar/contract'
import { Document, Form, Notice, Progress, speak, Status } from '../kit.tsx'
import { Back } from './checkout.tsx'
import { InviteResults, isEmpty, leftOf, saidOf } from './inviting.tsx'

type Props<K extends View['kind']> = { readonly view: Extract<View, { kind: K }>; readonly frame: Frame }

/** What becomes of a purchase, as the server knows it: three steps, and at their end the thanks. */
export const Purchase = ({ view, frame }: Props<'purchase'>) => {
  const { t, money } = speak(frame)
  const { steps, seller, benefits, refresh } = view
  const bought = steps.order === 'done'
  const words = t.checkout.purchase
  return (
    <Document frame={frame} title={bought ? words.thanks : words.working} seller={seller.name} narrow script refresh={refresh}>
      <div className="card">
        <h1>{bought ? words.thanks : words.working}</h1>
        <p>{bought ? words.bought(view.product) : words.workingText}</p>
        <ol className="steps" aria-label={words.steps}>
          {(['payment', 'order', 'access'] as const).map((step) => (
            <li key={step} className={steps[step]} aria-current={steps[step] === 'doing' ? 'step' : undefined}>
              <span>{words[step]}</span> <Status kind={looks[steps[step]]}>{words.states[steps[step]]}</Status>
            </li>
          ))}
        </ol>
        {bought && (
          <p className="soft facts">
            {view.paid > 0 && <span>{words.paid(money(view.paid, view.currency))}</span>}
            {view.number && <span>{words.number(view.number)}</span>}
            {view.email && <span>{words.receipt(view.email)}</span>}
          </p>
        )}
        {bought && benefits.length > 0 && (
          <>
            <h2>{words.benefits}</h2>
            <ul className="benefits">
              {benefits.map(({ description, state }) => (
                <li key={description}>
                  <span>{description}</span>{' '}
                  <Status kind={state === 'granted' ? 'good' : state === 'failed' ? 'bad' : state === 'coming' ? 'wait' : 'off'}>{words.benefit[state]}</Status>
                </li>
              ))}
            </ul>
          </>
        )}
        {bought && !view.entered && view.email && <p>{words.signInText(view.email)}</p>}
        {bought && (
          <p>
            <a className="button" href={view.entered ? `/${seller.slug}/portal` : `/${seller.slug}/portal/sign-in`}>
              {view.entered ? words.portal : words.signIn}
            </a>
          </p>
        )}
      </div>
      {bought && (view.team || view.invited) && <Team view={view} frame={frame} />}
    </Document>
  )
}

const looks: Record<StepState, 'good' | 'wait' | 'off'> = { done: 'good', doing: 'wait', waiting: 'off' }

/** Everybody at once: whatever is pasted is read, and each address is answered. */
const Team = ({ view, frame }: Props<'purchase'>) => {
  const { t } = speak(frame)
  const words = t.checkout.purchase
  const { team, invited, seller } = view
  const empty = isEmpty(invited)
  return (
    <section id="team" className="card" aria-labelledby="invite" data-says={saidOf(frame, invited)}>
      <h2 id="invite">{words.invite}</h2>
      {team && <Progress label={words.seats(team.total - team.free, team.total)} done={team.total - team.free} of={team.total} />}
      {invited && <InviteResults frame={frame} invited={invited} signIn={`/${seller.slug}/portal/sign-in`} />}
      {!team || team.free > 0 ? (
        <Form frame={frame} action={`/checkout/${view.id}/invite`} swap="#team">
          <div className="field">
            <label htmlFor="addresses">{words.addresses}</label>
            <p id="addresses-hint" className="soft">
              {words.inviteText}
            </p>
            <textarea
              id="addresses"
              name="addresses"
              rows={4}
              required
              spellCheck={false}
              defaultValue={leftOf(invited)}
              aria-describedby={empty ? 'addresses-hint addresses-error' : 'addresses-hint'}
              aria-invalid={empty ? true : undefined}
            />
            {empty && (
              <p id="addresses-error" className="error">
                {t.inviting.none}
              </p>
            )}
          </div>
          <button className="primary">{words.send}</button>
        </Form>
      ) : (
        <p>{words.full}</p>
      )}
    </section>
  )
}

/** The bank of a test card. */
export const Bank = ({ view, frame }: Props<'bank'>) => {
  const { t, money } = speak(frame)
  const words = t.checkout.bank
  return (
    <Document frame={frame} title={words.title} seller={view.seller} narrow scripts={view.processor ? ['/assets/stripe.js'] : []}>
      <div className="card">
        <h1>{words.title}</h1>
        <p className="price">{view.amount > 0 ? words.text(money(view.amount, view.currency), view.seller) : words.setup(view.seller)}</p>
        {view.processor && (
          <>
            <Form frame={frame} action={view.action} className="hidden">
              <button
                id="processor-action"
                data-key={view.processor.key}
                data-intent={view.processor.intent_client_secret}
                data-failed={t.checkout.notLoaded}
                tabIndex={-1}
              >
                {words.confirm}
              </button>
            </Form>
            <p id="processor-error" className="error" role="alert" />
            <noscript>
              <p className="notice warn">{t.checkout.needsScript}</p>
            </noscript>
          </>
        )}
        {!view.processor && (
          <Form frame={frame} action={view.action}>
            <div className="buttons">
              <button name="answer" value="refuse">
                {words.refuse}
              </button>
              <button name="answer" value="confirm" className="primary">
                {words.confirm}
              </button>
            </div>
          </Form>
        )}
        {!view.processor && (
          <Notice kind="warn">
            <p>{words.sandbox}</p>
          </Notice>
        )}
      </div>
    </Document>
  )
}

export const CheckoutClosed = ({ view, frame }: Props<'checkout-closed'>) => {
  const { t } = speak(frame)
  const { title, text } = t.checkout.closed[view.reason]
  return (
    <Document frame={frame} title={title} narrow {...(view.seller === null ? {} : { seller: view.seller })}>
      <div className="card">
        <h1>{title}</h1>
        <p>{text}</p>
        <Back to={view.return_url} frame={frame} />
      </div>
    </Document>
  )
}
