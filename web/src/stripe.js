// Joins a page to Stripe's own form: the card is typed into a frame of theirs, and what comes to us is a token. The
// page names their script and frames in its policy; this file asks for the script, and is sent only where it is needed.
;(() => {
  const say = (text) => (document.getElementById('processor-error').textContent = text)
  // The bank asks the payer in a frame over the page; however it ends, the server is asked what came of it.
  const action = document.getElementById('processor-action')
  const ask = async () => {
    try {
      await load()
      // eslint-disable-next-line no-undef
      await Stripe(action.dataset.key).handleNextAction({ clientSecret: action.dataset.intent })
      action.click()
    } catch {
      // Their script did not come, or did not work: the server is asked only when a person wants that.
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
      // What sends its payer to another site is refused by the server, and other debits nobody has tried. Wallets are cards.
      allowedPaymentMethodTypes: ['card', 'link', 'sepa_debit'],
      appearance: { theme: matchMedia('(prefers-color-scheme: dark)').matches ? 'night' : 'stripe' },
    })
    place.replaceChildren()
    // At the checkout, name, address and e-mail are asked for by our own page; elsewhere their form asks for what it needs.
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
      // What has become free in the meantime needs no card.
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
      // Not within the event that asks for it: a form that is being sent is not sent again.
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
  // What costs nothing at first may cost something later, and the other way round.
  document.addEventListener('swapped', () => void begin())
  if (action) void ask()
  else void begin()
})()
