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
  // Returns the look of our page for Stripe's form, whose frame cannot read our styles. The browser resolves each colour of
  // the page to the current theme. Stripe accepts no CSS variables and no `light-dark`.
  const lookOf = () => {
    const root = document.documentElement
    const { theme } = root.dataset
    const isDark = theme === 'dark' || (theme !== 'light' && matchMedia('(prefers-color-scheme: dark)').matches)
    const probe = document.body.appendChild(document.createElement('span'))
    const colour = (name) => {
      probe.style.color = `var(${name})`
      return getComputedStyle(probe).color
    }
    const variables = {
      colorPrimary: colour('--accent'),
      colorBackground: colour('--card'),
      colorText: colour('--text'),
      colorTextSecondary: colour('--soft'),
      colorDanger: colour('--danger'),
      fontFamily: getComputedStyle(document.body).fontFamily,
      fontSizeBase: '16px',
      borderRadius: getComputedStyle(root).getPropertyValue('--curve').trim(),
    }
    probe.remove()
    return { theme: isDark ? 'night' : 'stripe', variables }
  }
  // The font file of our page. Its server allows other origins to load it.
  const fonts = () => {
    const file = document.querySelector('link[rel="preload"][as="font"]')
    return file ? [{ family: 'Geist', src: `url(${file.href})`, weight: '100 900' }] : []
  }
  const pay = (place) => {
    const form = place.closest('form')
    const token = form.querySelector('input[name="confirmation_token_id"]')
    const { key, mode, amount, currency, reusable, methods, locale } = place.dataset
    // eslint-disable-next-line no-undef
    const stripe = Stripe(key, { locale })
    const dark = matchMedia('(prefers-color-scheme: dark)')
    const sum = (value) => (mode === 'payment' ? { amount: Number(value) } : {})
    const elements = stripe.elements({
      mode,
      currency,
      ...sum(amount),
      ...(reusable === 'true' ? { setupFutureUsage: 'off_session' } : {}),
      paymentMethodCreation: 'manual',
      // The server accepts only these payment methods. Wallets need no entry, because Stripe treats them as cards.
      allowedPaymentMethodTypes: methods.split(' '),
      appearance: lookOf(),
      fonts: fonts(),
    })
    // The theme of the system may change while the page is open.
    dark.addEventListener('change', () => place.isConnected && elements.update({ appearance: lookOf() }))
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
    // Creates the token of the chosen payment method. Returns the error for the buyer, if there is one.
    const exchange = async () => {
      say('')
      elements.update(sum(valueOf('shown')?.split(' ')[0] ?? amount))
      const { error: unfinished } = await elements.submit()
      const made = unfinished
        ? { error: unfinished }
        : await stripe.createConfirmationToken({ elements, ...(asked ? { params: { payment_method_data: { billing_details: details() } } } : {}) })
      if (made.error) say(made.error.message)
      else token.value = made.confirmationToken.id
      return made.error
    }
    // The buttons of wallets. A wallet opens only if our own fields are complete, because they decide the tax: the wallet
    // then shows the amount that is charged.
    const express = document.getElementById('express-checkout')
    if (express && asked) {
      const wallets = elements.create('expressCheckout', { buttonType: { applePay: 'buy', googlePay: 'buy', paypal: 'buynow' }, buttonHeight: 48 })
      // Without an answer to its click, the wallet stays closed.
      wallets.on('click', ({ resolve }) => {
        if (form.reportValidity()) resolve()
      })
      wallets.on('ready', ({ availablePaymentMethods }) => (express.hidden = !place.isConnected || !availablePaymentMethods))
      wallets.on('confirm', async ({ paymentFailed }) => {
        if (await exchange()) return paymentFailed({ reason: 'fail' })
        // The wallet replaces the saved method that is chosen above.
        const other = form.querySelector('[name="payment_method_id"][value=""]')
        if (other) other.checked = true
        form.requestSubmit(form.querySelector('.paying [data-whole]'))
      })
      express.replaceChildren()
      wallets.mount(express)
    }
    const submit = async (event) => {
      const { submitter } = event
      // Does nothing if the card form was removed because the order has become free. The same applies if another button
      // was pressed, or if a token exists. The button that pays is the only one that validates the form.
      if (
        !place.isConnected ||
        submitter?.dataset.whole === undefined ||
        submitter.formNoValidate ||
        token.value !== '' ||
        valueOf('payment_method_id') !== null
      )
        return
      event.preventDefault()
      event.stopImmediatePropagation()
      submitter.setAttribute('aria-busy', 'true')
      const failed = await exchange()
      submitter.removeAttribute('aria-busy')
      if (failed) return
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
    if (place === shown) return
    shown = place
    // The wallets belong to the form. Without one, the order is free and needs no wallet.
    const express = document.getElementById('express-checkout')
    if (express) express.hidden = true
    if (!place) return
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
