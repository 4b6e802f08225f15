// Before anything is drawn: the theme that was chosen here, else the system's.
if (localStorage.theme) document.documentElement.dataset.theme = localStorage.theme;
