// Sends forms marked with data-swap without leaving the page. The parts of the response that data-swap selects replace
// the same parts of this page. Without this script, or after an error, the form makes an ordinary page load.
;(() => {
  // True after an ordinary submit, while the browser loads the next page. The script must not change this page any more.
  let leaving = false
  let waiting
  // Puts the focused field back into the new part of the page, with its text and cursor.
  const keep = (typing) => {
    const twin = document.getElementById(typing.id)
    if (!twin || twin === typing) return
    if (twin.tagName === typing.tagName && typing.matches('input, textarea, select')) {
      if (!twin.hasAttribute('aria-invalid')) typing.removeAttribute('aria-invalid')
      for (const { name, value } of twin.attributes) typing.setAttribute(name, value)
      twin.replaceWith(typing)
    }
    document.getElementById(typing.id).focus()
  }
  const swap = async (form, submitter, tries = 1) => {
    const selector = form.dataset.swap
    const body = new URLSearchParams(new FormData(form, submitter))
    // Reads the attribute instead of form.action, because a button named `action` would shadow that property.
    const action = submitter?.getAttribute('formaction') ?? form.getAttribute('action')
    for (const part of document.querySelectorAll(selector)) part.setAttribute('aria-busy', 'true')
    const answer = await fetch(action, { method: 'POST', body, headers: { accept: 'text/html' } })
    // On 429 or 503, waits for the retry-after time and sends the form again, including text that was typed meanwhile.
    if ((answer.status === 429 || answer.status === 503) && tries < 4) {
      await new Promise((resolve) => setTimeout(resolve, 1000 * Math.min(Math.max(Number(answer.headers.get('retry-after')), 1), 20)))
      return leaving ? undefined : swap(form, submitter, tries + 1)
    }
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html')
    if (leaving) return
    const fresh = [...page.querySelectorAll(selector)]
    const old = [...document.querySelectorAll(selector)]
    // The response is an error page without these parts, so the whole page is replaced.
    if (fresh.length !== old.length && !answer.ok && !answer.redirected) {
      document.documentElement.replaceWith(document.adoptNode(page.documentElement))
      return document.getElementById('content')?.focus()
    }
    // The response is another page or has another address, so the browser navigates to it.
    if (fresh.length !== old.length || (answer.redirected && new URL(answer.url).pathname !== location.pathname)) return location.assign(answer.url)
    const typing = document.activeElement
    // Values that were typed while the request was running. They override the values in the response.
    const newer = [...form.elements]
      .filter((field) => field.matches('[type="text"], [type="email"], [type="number"], select, textarea'))
      .filter(({ name, value }) => body.has(name) && body.get(name) !== value)
      .map(({ name, value }) => [name, value])
    const ticks = [...form.elements]
      .filter(({ type, name, checked }) => type === 'checkbox' && checked !== body.has(name))
      .map(({ name, checked }) => [name, checked])
    const open = [...document.querySelectorAll('details[open]')].map((one) => one.querySelector('summary').textContent)
    // A part with data-keep is not replaced while the value of that attribute is the same.
    const stays = (part, other) => part.dataset.keep !== undefined && part.dataset.keep === other.dataset.keep
    for (const [at, part] of old.entries()) {
      if (stays(part, fresh[at])) part.removeAttribute('aria-busy')
      else part.replaceWith(document.adoptNode(fresh[at]))
    }
    for (const [name, value] of newer) if (form.elements[name]) form.elements[name].value = value
    for (const [name, ticked] of ticks) if (form.elements[name]?.type === 'checkbox') form.elements[name].checked = ticked
    document.dispatchEvent(new Event('swapped'))
    for (const one of document.querySelectorAll('details')) if (open.includes(one.querySelector('summary').textContent)) one.open = true
    if (typing?.id) keep(typing)
    const said = document.getElementById('said')
    if (said) said.textContent = fresh.find((part) => part.dataset.says)?.dataset.says ?? ''
  }
  const send = (form, submitter) =>
    swap(form, submitter).catch(() => {
      if (leaving) return
      form.removeAttribute('data-swap')
      if (submitter) submitter.click()
      else form.submit()
    })
  let turn = Promise.resolve()
  document.addEventListener('submit', (event) => {
    const { target: form, submitter } = event
    if (!form.dataset.swap || submitter?.dataset.whole !== undefined) {
      // Prevents a second submit, because the response of the first one would be lost.
      if (leaving) return event.preventDefault()
      leaving = true
      clearTimeout(waiting)
      submitter?.setAttribute('aria-busy', 'true')
      return
    }
    event.preventDefault()
    turn = turn.then(() => send(form, submitter))
  })
  // A field marked with data-live presses the named button shortly after a change.
  document.addEventListener('input', ({ target }) => {
    if (target.dataset.live === undefined) return
    clearTimeout(waiting)
    waiting = setTimeout(() => document.getElementById(target.dataset.live)?.click(), 250)
  })
  // Resets busy buttons when the page is shown again, for example with the back button.
  addEventListener('pageshow', () => {
    leaving = false
    for (const button of document.querySelectorAll('button[aria-busy]')) button.removeAttribute('aria-busy')
  })
  // Loads this page again with GET, without sending its form again.
  const load = () => location.replace(location.pathname + location.search)
  // Polls a page with data-refresh and shows the new state, until the page no longer asks for it.
  const again = async () => {
    const seconds = Number(document.querySelector('main').dataset.refresh)
    if (!seconds) return
    await new Promise((resolve) => setTimeout(resolve, seconds * 1000))
    // Waits while a field is focused or has unsaved text, because the replacement would discard it.
    const fields = [...document.querySelectorAll('main input:not([type="hidden"]), main textarea')]
    if (fields.some((field) => field === document.activeElement || field.value !== field.defaultValue)) return again()
    const answer = await fetch(location.href, { headers: { accept: 'text/html' }, redirect: 'manual' })
    // The page now redirects, perhaps to the seller's site, which only the browser itself can follow.
    if (answer.type === 'opaqueredirect' || answer.headers.has('refresh')) return load()
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html')
    const fresh = page.querySelector('main')
    // The new state needs further scripts. The content security policy of this page does not allow them, so the page is loaded again.
    if (!fresh || page.scripts.length > document.scripts.length) return load()
    const before = document.querySelector('h1').textContent
    document.querySelector('main').replaceWith(document.adoptNode(fresh))
    document.title = page.title
    const heading = document.querySelector('h1').textContent
    const said = document.getElementById('said')
    if (said && heading !== before) said.textContent = heading
    return again()
  }
  again().catch(load)
  // Presses the button marked with data-press. Without this script, the reader presses it.
  document.querySelector('[data-press]')?.click()
  const copy = async ({ target }) => {
    const button = target.closest?.('[data-copy]')
    if (!button) return
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent)
    const said = document.getElementById('said')
    if (said) said.textContent = button.dataset.says ?? ''
  }
  document.addEventListener('click', (event) => void copy(event))
})()
