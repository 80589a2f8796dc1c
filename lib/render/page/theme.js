// Light and dark: the system's setting, or the chosen one.

const darkSystem = window.matchMedia('(prefers-color-scheme: dark)');

function currentTheme() {
  return state.theme === 'auto' ? (darkSystem.matches ? 'dark' : 'light') : state.theme;
}
function applyTheme() {
  document.documentElement.dataset.theme = currentTheme();
  $('theme').textContent = currentTheme() === 'dark' ? 'Light' : 'Dark';
  $('theme').setAttribute('aria-label', `Switch to ${currentTheme() === 'dark' ? 'light' : 'dark'}`);
}
function toggleTheme() {
  const other = currentTheme() === 'dark' ? 'light' : 'dark';
  update({ theme: other === (darkSystem.matches ? 'dark' : 'light') ? 'auto' : other });
}
