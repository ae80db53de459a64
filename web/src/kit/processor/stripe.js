// Shows Stripe's form in a page. The card is typed into a frame of Stripe, and only a token reaches our server. This file
// loads Stripe's script, which the content security policy of the page allows. Only pages that need it include this file.
;(() => {
  const say = (text) => (document.getElementById('processor-error').textContent = text)
  // Shows the bank's 3-D Secure challenge in a frame. Afterwards submits the form that asks the server for the result.
  const action = document.getElementById('processor-action')
  const ask = async () => {
    try {
      await load()
      // eslint-disable-next-line no-undef
      await Stripe(action.dataset.key).handleNextAction({ clientSecret: action.dataset.intent })
      action.click()
    } catch {
      // Stripe's script failed. Shows the button, so that the buyer can ask for the result.
      action.closest('form').classList.remove('hidden')
      action.removeAttribute('tabindex')
      say(action.dataset.failed)
    }
  }
  const pay = (place) => {
    const form = place.closest('form')
    const token = form.querySelector('input[name="confirmation_token_id"]')
    const { key, mode, amount, currency, reusable, locale } = place.dataset
    // eslint-disable-next-line no-undef
    const stripe = Stripe(key, { locale })
    const sum = (value) => (mode === 'payment' ? { amount: Number(value) } : {})
    const elements = stripe.elements({
      mode,
      currency,
      ...sum(amount),
      ...(reusable === 'true' ? { setupFutureUsage: 'off_session' } : {}),
      paymentMethodCreation: 'manual',
      // The server rejects payment methods that redirect to another site. Bank debits other than SEPA are untested, so
      // they are not allowed. Wallets need no entry, because Stripe treats them as cards.
      allowedPaymentMethodTypes: ['card', 'link', 'sepa_debit'],
      appearance: { theme: matchMedia('(prefers-color-scheme: dark)').matches ? 'night' : 'stripe' },
    })
    place.replaceChildren()
    // The checkout has its own fields for name, address and e-mail. Elsewhere Stripe's form shows them.
    const asked = form.elements['customer_email'] !== undefined
    elements.create('payment', asked ? { fields: { billingDetails: { address: 'never', email: 'never', name: 'never' } } } : {}).mount(place)
    const valueOf = (name) => form.elements[name]?.value || null
    const details = () => ({
      email: valueOf('customer_email'),
      name: valueOf('customer_name'),
      phone: null,
      address: Object.fromEntries(
        ['country', 'state', 'city', 'postal_code', 'line1', 'line2'].map((part) => [part, valueOf(`customer_billing_address.${part}`)]),
      ),
    })
    const submit = async (event) => {
      const { submitter } = event
      // Does nothing if the card form was removed because the order has become free. The same applies if another button
      // was pressed, or if a token exists.
      if (!place.isConnected || submitter?.dataset.whole === undefined || token.value !== '') return
      event.preventDefault()
      event.stopImmediatePropagation()
      submitter.setAttribute('aria-busy', 'true')
      say('')
      elements.update(sum(valueOf('shown')?.split(' ')[0] ?? amount))
      const { error: unfinished } = await elements.submit()
      const made = unfinished
        ? { error: unfinished }
        : await stripe.createConfirmationToken({ elements, ...(asked ? { params: { payment_method_data: { billing_details: details() } } } : {}) })
      submitter.removeAttribute('aria-busy')
      if (made.error) return say(made.error.message)
      token.value = made.confirmationToken.id
      // Waits until this submit event has ended, because a form cannot be submitted again during its submit event.
      setTimeout(() => form.requestSubmit(submitter))
    }
    form.addEventListener('submit', (event) => void submit(event), { capture: true })
  }
  let loaded
  const load = () => {
    loaded ??= new Promise((resolve, reject) => {
      const script = document.createElement('script')
      script.src = 'https://js.stripe.com/clover/stripe.js'
      script.addEventListener('load', resolve)
      script.addEventListener('error', reject)
      document.head.append(script)
    })
    return loaded
  }
  let shown = null
  const begin = async () => {
    const place = document.getElementById('processor-form')
    if (!place || place === shown) return
    shown = place
    try {
      await load()
    } catch {
      return say(place.dataset.failed)
    }
    if (place.isConnected) pay(place)
  }
  // After the order has changed, it may need a card for the first time. The form is then shown.
  document.addEventListener('swapped', () => void begin())
  if (action) void ask()
  else void begin()
})()
