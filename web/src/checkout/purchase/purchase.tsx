import type { CheckoutView, Frame, StepState } from '@bursar/views'
import { Cover, Document, Form, Markdown, Progress, speak, Status, textsIn } from '../../kit/index.ts'
import { InviteResults, invitingTexts, isEmpty, leftOf, saidOf } from '../../kit/inviting/inviting.tsx'
import { de } from './de.ts'
import { en } from './en.ts'

const texts = { en, de }

type Props = { readonly view: Extract<CheckoutView, { kind: 'purchase' }>; readonly frame: Frame }

/** The progress of a purchase, as the server reports it: three steps, then the confirmation. */
export const Purchase = ({ view, frame }: Props) => {
  const { money } = speak(frame)
  const { steps, seller, benefits, refresh } = view
  const bought = steps.order === 'done'
  const words = textsIn(frame, texts)
  const isPaid = steps.payment === 'done'
  const working = view.at_bank ? words.waiting : isPaid ? words.preparing : words.working
  return (
    <Document frame={frame} title={bought ? words.thanks : working} seller={seller.name} narrow script refresh={refresh}>
      <div className="card">
        <Cover src={view.cover} />
        <h1>{bought ? words.thanks : working}</h1>
        <p>{bought ? words.bought(view.product) : view.at_bank ? words.waitingText(view.email) : isPaid ? words.preparingText : words.workingText}</p>
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
              {benefits.map(({ description, note, state }) => (
                <li key={description}>
                  <div>
                    <span>{description}</span>
                    {note !== null && <Markdown source={note} className="soft" />}
                  </div>{' '}
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

/** The id of the button that sends the invitations. */
const sending = 'send-invitations'

/** Invites several people at once. Every pasted address gets a result. */
const Team = ({ view, frame }: Props) => {
  const words = textsIn(frame, texts)
  const { team, invited, seller } = view
  const empty = isEmpty(invited)
  return (
    <section id="team" className="card" aria-labelledby="invite" data-says={saidOf(frame, invited)}>
      <h2 id="invite">{words.invite}</h2>
      {team && <Progress label={words.seats(team.total - team.free, team.total)} done={team.total - team.free} of={team.total} />}
      {invited && <InviteResults frame={frame} invited={invited} signIn={`/${seller.slug}/portal/sign-in`} send={sending} />}
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
                {textsIn(frame, invitingTexts).none}
              </p>
            )}
          </div>
          <button id={sending} className="primary">
            {words.send}
          </button>
        </Form>
      ) : (
        <p>{words.full}</p>
      )}
    </section>
  )
}
